//! Engines on the command line.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use firndex::Engine;

/// The engines by name, as the facade lists them, so that a new engine is offered here by itself.
pub(super) fn engine_names() -> impl TypedValueParser<Value = Engine> {
    PossibleValuesParser::new(Engine::ALL.iter().map(|engine| engine.name()))
        .try_map(|name| name.parse::<Engine>())
}
