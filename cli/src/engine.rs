//! The arguments that choose an engine and its parameters, from the facade's list of engines.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use firndex::{Engine, Options};

/// Which engine, and its parameters.
#[derive(Debug)]
pub(crate) struct Choice {
    engine: Option<Engine>,
    parameters: Vec<(&'static str, u64)>,
}

impl Choice {
    /// Options of a pool on it.
    pub(crate) fn options(&self) -> Options {
        let options = match self.engine {
            Some(engine) => Options::default().engine(engine),
            None => Options::default(),
        };
        let with = |options: Options, (name, value): &(&str, u64)| options.parameter(name, *value);
        self.parameters.iter().fold(options, with)
    }
}

/// Engines by name, each with its description.
pub fn names() -> impl TypedValueParser<Value = Engine> {
    let value = |engine: &Engine| {
        let description = engine.description();
        let takes = format!("{} Tables take {}.", description.summary, description.pair_sizes);
        PossibleValue::new(description.name).help(takes)
    };
    PossibleValuesParser::new(Engine::ALL.iter().map(value)).try_map(|name| name.parse::<Engine>())
}

/// The parameters of all engines; engines that have one of the same name share its argument.
fn parameters() -> Vec<(&'static str, String)> {
    let mut all: Vec<(&str, String)> = Vec::new();
    for engine in Engine::ALL {
        for parameter in engine.description().parameters {
            let (name, says) = (parameter.name, parameter.help);
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, help)) => *help = format!("{help}; on {engine}: {says}"),
                None => all.push((name, format!("On the engine {engine}: {says}"))),
            }
        }
    }
    all
}

impl Args for Choice {
    fn augment_args(command: Command) -> Command {
        let engine = Arg::new("engine")
            .long("engine")
            .value_parser(names())
            .help("The hash table to use [default: the first that takes the kind and parameters asked for]");
        let parameter = |(name, help): (&'static str, String)| {
            let value = clap::value_parser!(u64);
            Arg::new(name).long(name).value_name("N").value_parser(value).help(help)
        };
        command.arg(engine).args(parameters().into_iter().map(parameter))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Choice {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let chosen = |(name, _)| Some((name, *matches.get_one::<u64>(name)?));
        Ok(Choice {
            engine: matches.get_one::<Engine>("engine").copied(),
            parameters: parameters().into_iter().filter_map(chosen).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
