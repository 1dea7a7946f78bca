//! What `{:?}` shows of an error.
//!
//! A program whose `main` returns an error, and one that unwraps it, shows it by `Debug`. People read that, so it is
//! the message, and behind it the name under which pages list the error and programs match it:
//!
//! ```text
//! there is no pool at a.firn; create it first, or open it with `open_or_create` [Error::Open(OpenError::Missing)]
//! ```
//!
//! `{:#?}` shows the fields, as a derived `Debug` does.

use std::fmt;

/// An error with a name for programs.
#[doc(hidden)]
pub trait Named {
    /// Writes the path of its variant.
    fn write_name(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// Implements `Debug` and [`Named`] for an enum of errors, whose variants and fields are listed.
#[doc(hidden)]
#[macro_export]
macro_rules! show_as_text {
    ($type:ident {
        $($(#[$when:meta])* $variant:ident $({ $($field:ident),+ })? $(($inner:ident))?),+ $(,)?
    }) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                if !f.alternate() {
                    write!(f, "{self} [")?;
                    $crate::Named::write_name(self, f)?;
                    return f.write_str("]");
                }
                match self {
                    $($(#[$when])* $type::$variant $({ $($field),+ })? $(($inner))? => {
                        $crate::show_as_text!(@fields f $variant $({ $($field),+ })? $(($inner))?)
                    })+
                }
            }
        }

        impl $crate::Named for $type {
            fn write_name(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($(#[$when])* $type::$variant { $(0: $inner,)? .. } => {
                        f.write_str(concat!(stringify!($type), "::", stringify!($variant)))?;
                        $crate::show_as_text!(@inner f $($inner)?)
                    })+
                }
            }
        }
    };
    (@fields $f:ident $variant:ident) => {
        $f.write_str(stringify!($variant))
    };
    (@fields $f:ident $variant:ident ($inner:ident)) => {
        $f.debug_tuple(stringify!($variant)).field($inner).finish()
    };
    (@fields $f:ident $variant:ident { $($field:ident),+ }) => {
        $f.debug_struct(stringify!($variant))
            $(.field(stringify!($field).trim_start_matches("r#"), $field))+
            .finish()
    };
    (@inner $f:ident $inner:ident) => {{
        $f.write_str("(")?;
        $crate::Named::write_name($inner, $f)?;
        $f.write_str(")")
    }};
    (@inner $f:ident) => {
        Ok(())
    };
}
