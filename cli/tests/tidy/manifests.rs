//! The packages that compile a crate once more, for a lab, agree with the crate's own manifest.

use crate::pages::{none_of, text, top};
use std::collections::BTreeSet;

/// Names of a section of a manifest.
fn names(manifest: &str, section: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| *line != format!("[{section}]")).skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn variants_depend_on_what_their_originals_do() {
    let mut differing = Vec::new();
    let of_lab: [(&str, &str, &[&str]); 2] = [
        ("crashlab", "simulated", &["pmem", "index", "engines", "baselines"]),
        ("kernels", "loom", &["pmem", "index", "engines"]),
    ];
    for (lab, feature, names_of_crates) in of_lab {
        for &name in names_of_crates {
            let original = text(&top().join(name).join("Cargo.toml"));
            let variant = text(&top().join(lab).join("variants").join(name).join("Cargo.toml"));
            let mut expected = names(&original, "dependencies");
            // The platform that it is compiled for.
            if (lab, name) == ("kernels", "pmem") {
                expected.insert("loom".into());
            }
            let found = names(&variant, "dependencies");
            if found != expected {
                differing
                    .push(format!("{lab}/variants/{name}: {found:?}, the original {expected:?}"));
            }
            let has_feature = |manifest: &str| names(manifest, "features").contains(feature);
            if has_feature(&original) && !has_feature(&variant) {
                differing.push(format!("{lab}/variants/{name} has no feature {feature}"));
            }
        }
    }
    none_of("manifests that differ", &differing);
}
