//! Why a shader was not compiled.

use naga::Span;
use thiserror::Error as ThisError;

/// Why a shader was not compiled. Every variant is the caller's to act upon; a shader that naga validates never panics.
#[derive(Clone, Debug, ThisError, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// PTX, the chosen target or this compiler has no counterpart.
    #[error("{construct} is not supported: {reason}")]
    Unsupported {
        /// What the shader uses, in WGSL's words.
        construct: String,
        /// Why not, and what would help.
        reason: String,
        /// Where in the source, when known.
        span: Option<Span>,
    },
    /// No entry point of that name, or none at all.
    #[error("no compute entry point `{name}`; the module has: {available}")]
    NoEntryPoint {
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// An override has no value: set it with `naga::back::pipeline_constants::process_overrides` first.
    #[error("override `{name}` has no value; give it one before compiling")]
    UnresolvedOverride {
        /// Its name or number.
        name: String,
    },
    /// The code would be too large: functions are compiled into their callers and loops over arrays are unrolled.
    #[error("the shader is too complex: {what} exceeds {limit}")]
    TooComplex {
        /// What grew.
        what: &'static str,
        /// The most there may be.
        limit: u64,
    },
    /// The module breaks a rule that naga's validator enforces, or was validated with other content.
    #[error("the module is not valid naga IR: {reason}")]
    InvalidModule {
        /// What was found.
        reason: String,
    },
}

impl Error {
    pub(crate) fn unsupported(construct: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Unsupported { construct: construct.into(), reason: reason.into(), span: None }
    }

    pub(crate) fn invalid(reason: impl Into<String>) -> Error {
        Error::InvalidModule { reason: reason.into() }
    }

    /// The same with a place in the source, unless it has one.
    pub(crate) fn at(self, place: Span) -> Error {
        match self {
            Error::Unsupported { construct, reason, span: None } if place.is_defined() => {
                Error::Unsupported { construct, reason, span: Some(place) }
            }
            other => other,
        }
    }

    /// Where in the source, when known.
    pub fn span(&self) -> Option<Span> {
        match self {
            Error::Unsupported { span, .. } => *span,
            _ => None,
        }
    }
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;
