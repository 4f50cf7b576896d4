// SPDX-License-Identifier: GPL-2.0-only
//! Layers of the host. Each owns the one below it and reaches that one's fields and methods as its
//! own, so calls go down, and a call that went up would not compile. What goes up is an event.

/// `above!(Mm.sched: Sched)`: the layer `Mm` has the layer `Sched` below it, in the field `sched`.
/// With the names of its other fields it also has a function `new`, where these are empty.
macro_rules! above {
    ($layer:ident . $field:ident : $below:ty, $($other:ident),+) => {
        above!($layer.$field: $below);

        impl $layer {
            /// On top of the layer below, with nothing in it yet.
            pub fn new($field: $below) -> $layer {
                $layer {
                    $($other: Default::default(),)+
                    $field,
                }
            }
        }
    };
    ($layer:ident . $field:ident : $below:ty) => {
        impl std::ops::Deref for $layer {
            type Target = $below;

            fn deref(&self) -> &$below {
                &self.$field
            }
        }

        impl std::ops::DerefMut for $layer {
            fn deref_mut(&mut self) -> &mut $below {
                &mut self.$field
            }
        }
    };
}
