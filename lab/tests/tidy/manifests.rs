//! Manifests: packages that compile a crate once more, for a lab, agree with the original; packages to be published are
//! complete.

use crate::pages::{files, none_of, text, top};
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

/// What a package needs in its registry, besides its sources: `cargo package --list` shows it.
#[test]
fn packages_to_publish_have_licences_a_page_and_addresses() {
    let mut missing = Vec::new();
    let mut published = Vec::new();
    for path in files("toml").iter().filter(|path| path.ends_with("Cargo.toml")) {
        let manifest = text(&top().join(path));
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        let Some(name) = name.filter(|_| !manifest.contains("publish = false\n")) else { continue };
        published.push(name.trim_matches('"').to_owned());
        for line in ["license", "homepage", "documentation", "repository"]
            .map(|key| format!("{key}.workspace = true\n"))
        {
            if !manifest.contains(&line) {
                missing.push(format!("{}: {}", path.display(), line.trim_end()));
            }
        }
        let directory = top().join(path).with_file_name("");
        for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            if !directory.join(file).is_file() {
                missing.push(format!("{}: {file}", path.display()));
            }
        }
    }
    none_of("what packages lack that are published", &missing);
    let expected =
        ["firndex-derive", "firndex-engines", "firndex", "firndex-index", "firndex-pmem"];
    assert_eq!(published, expected, "others say `publish = false`");
}
