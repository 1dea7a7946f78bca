//! A contender has one colour in all charts.

use super::svg::Svg;
use super::text::escape;
use crate::row::Row;

/// Colours in the page's style; contenders beyond them take the same again, hollow and dashed.
const COLOURS: usize = 8;

/// The contenders of a run.
pub(super) struct Palette {
    names: Vec<String>,
}

impl Palette {
    /// All contenders, in the order of their first rows.
    pub(super) fn of(rows: &[Row]) -> Palette {
        let mut names: Vec<String> = Vec::new();
        for row in rows.iter().filter(|row| row.contender != "machine") {
            if !names.contains(&row.contender) {
                names.push(row.contender.clone());
            }
        }
        Palette { names }
    }

    /// Classes of a contender's shapes. The machine itself has a colour that is none.
    pub(super) fn class(&self, contender: &str) -> String {
        match self.names.iter().position(|name| name == contender) {
            None => "machine".into(),
            Some(index) if index < COLOURS => format!("c{index}"),
            Some(index) => format!("c{} again", index % COLOURS),
        }
    }

    /// Which colour is whose, for the contenders of these rows.
    pub(super) fn legend(&self, rows: &[&Row], further: &str) -> String {
        let mut legend = String::from("<p class=\"legend\">");
        let is_here = |name: &&String| rows.iter().any(|row| row.contender == **name);
        for name in self.names.iter().filter(is_here) {
            let mut svg = Svg::new(14.0, 12.0);
            svg.bar(&format!("bar {}", self.class(name)), (1.0, 2.0), (13.0, 10.0));
            legend += &format!("<span>{} {}</span> ", svg.key(), escape(name));
        }
        legend + further + "</p>\n"
    }
}
