// SPDX-License-Identifier: GPL-2.0-only
//! Observations for people and for other programs: a diagnosis in words, a run over time.
//!
//! A run over time is a [`timeline::Timeline`], drawn as a page by [`html_page()`], and
//! written for Perfetto's viewer by [`perfetto_trace()`].

mod explain;
mod format;
mod html;
mod perfetto;
mod sleeps;
pub mod timeline;

pub use explain::{explain_diagnosis, losses_by_cgroup};
pub use format::{
    format_bytes, format_comparison, format_ratio, format_value, plain_table, scale_for,
    significant_digits,
};
pub use html::{comparison_text, escape_text, html_page};
pub use perfetto::perfetto_trace;
pub use sleeps::reclaim_sleeps;
