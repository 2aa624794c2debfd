//! Clients that try to make the server work or remember.
