//! polywarp
