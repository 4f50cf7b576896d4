// SPDX-License-Identifier: GPL-2.0-only
// Runs before a page's own script: notes what goes wrong in it.
window.wrong = [];
addEventListener("error", (event) => window.wrong.push("error: " + event.message));
document.addEventListener("securitypolicyviolation", (event) => window.wrong.push("it asked for " + event.blockedURI));
