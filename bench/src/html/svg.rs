//! A picture, drawn shape by shape. Colours come from the page's style, by class.

use super::text::escape;

/// Which end of a text lies at its place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture of so many pixels.
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Svg {
        Svg { body: String::new(), width, height }
    }

    fn push(&mut self, shape: std::fmt::Arguments<'_>) {
        self.body.push_str(&shape.to_string());
        self.body.push('\n');
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(pixel);
        self.push(format_args!(
            r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#
        ));
    }

    /// A bar from one corner to the opposite one.
    pub(super) fn bar(&mut self, class: &str, corner: (f64, f64), opposite: (f64, f64)) {
        let (left, right) = (corner.0.min(opposite.0), corner.0.max(opposite.0));
        let (top, bottom) = (corner.1.min(opposite.1), corner.1.max(opposite.1));
        let [x, y, width, height] = [left, top, right - left, bottom - top].map(pixel);
        self.push(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="1.5"/>"#
        ));
    }

    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let points = listed(points);
        self.push(format_args!(r#"<polyline class="{class}" points="{points}"/>"#));
    }

    pub(super) fn area(&mut self, class: &str, points: &[(f64, f64)]) {
        let points = listed(points);
        self.push(format_args!(r#"<polygon class="{class}" points="{points}"/>"#));
    }

    pub(super) fn dot(&mut self, class: &str, at: (f64, f64), radius: f64) {
        let [x, y, radius] = [at.0, at.1, radius].map(pixel);
        self.push(format_args!(r#"<circle class="{class}" cx="{x}" cy="{y}" r="{radius}"/>"#));
    }

    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let ([x, y], text) = ([at.0, at.1].map(pixel), escape(text));
        self.push(format_args!(
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// Shapes that tell `tip` when pointed at.
    pub(super) fn tipped(&mut self, tip: &str, draw: impl FnOnce(&mut Svg)) {
        self.push(format_args!("<g><title>{}</title>", escape(tip)));
        draw(self);
        self.body.push_str("</g>\n");
    }

    /// The picture; `label` says to those who do not see it what it shows.
    pub(super) fn finish(self, label: &str) -> String {
        let ([width, height], label) = ([self.width, self.height].map(pixel), escape(label));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             style=\"max-width:{}px\" role=\"img\" aria-label=\"{label}\">\n{}</svg>\n",
            (self.width * 1.15).round(),
            self.body
        )
    }

    /// The picture as a key in running text, where the words beside it say what it is.
    pub(super) fn key(self) -> String {
        let [width, height] = [self.width, self.height].map(pixel);
        format!(
            "<svg class=\"key\" viewBox=\"0 0 {width} {height}\" aria-hidden=\"true\">{}</svg>",
            self.body
        )
    }
}

/// A tenth of a pixel is exact enough; what is no number lies at 0, never in the page.
fn pixel(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn listed(points: &[(f64, f64)]) -> String {
    let points: Vec<String> =
        points.iter().map(|(x, y)| format!("{},{}", pixel(*x), pixel(*y))).collect();
    points.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_short_numbers_always() {
        assert_eq!([0.0, 12.04, 12.25, 1e3].map(pixel), ["0", "12", "12.2", "1000"]);
        assert_eq!([f64::NAN, f64::INFINITY, -f64::INFINITY].map(pixel), ["0", "0", "0"]);
    }
}
