//! Calls of the server's functions, which it fills in when it loads the module.

/// Calls a function of the server. All of them but those of newer servers are there once the module is initialized.
macro_rules! ask {
    ($function:ident($($argument:expr),* $(,)?)) => {
        match redis_module::raw::$function {
            Some(function) => function($($argument),*),
            // The oldest supported server has it.
            None => unreachable!(concat!("this server has no ", stringify!($function))),
        }
    };
}
pub(super) use ask;
