// SPDX-License-Identifier: GPL-2.0-only
// Runs after a page's own script: uses the page as a reader does, and leaves what is wrong in <pre id="checked">.
addEventListener("load", () => {
  const check = (is, what) => { if (!is) window.wrong.push(what); };
  const charts = Array.from(document.querySelectorAll("svg.chart"));
  check(charts.length >= 5, "only " + charts.length + " charts");
  check(performance.getEntriesByType("resource").length === 0, "it fetched something");
  check(innerWidth >= document.documentElement.scrollWidth, "it is wider than the window: " + document.documentElement.scrollWidth);
  for (const chart of charts) {
    const name = chart.querySelector("title").textContent;
    const box = chart.getBoundingClientRect();
    check(box.width > 250 && box.height > 80, name + " is " + box.width + " by " + box.height);
    for (const mark of chart.querySelectorAll("[data-mark]")) {
      check(mark.getAttribute("d").length > 0, name + " has an empty " + mark.dataset.name);
    }
    // Words of an axis must not cover each other.
    for (const group of chart.querySelectorAll(".grid, .times")) {
      const words = Array.from(group.querySelectorAll("text"), (text) => text.getBoundingClientRect());
      for (let i = 1; words.length > i; i++) {
        const a = words[i - 1], b = words[i];
        check(b.left >= a.right || a.left >= b.right || b.top >= a.bottom || a.top >= b.bottom, name + ": two words of an axis overlap");
      }
      for (const word of words) check(word.left >= box.left - 1 && box.right + 1 >= word.right, name + ": a word is cut off");
    }
  }
  const chart = charts[0], box = chart.getBoundingClientRect(), readout = chart.parentNode.querySelector(".readout");
  const edges = chart.dataset.box.split(" ").map(Number);
  const pointer = (type, part) => chart.dispatchEvent(new PointerEvent(type, {
    bubbles: true, pointerType: "mouse", button: 0, pointerId: 1,
    clientX: box.left + box.width * (edges[0] + part * edges[2]) / 760, clientY: box.top + box.height / 2,
  }));
  const key = (name) => chart.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const times = () => Array.from(chart.querySelectorAll(".times text"), (text) => text.textContent).join(" ");
  pointer("pointermove", 0.5);
  const seconds = Number(chart.dataset.seconds);
  check(readout.textContent.startsWith("at " + (seconds / 2).toFixed(3) + " s\n"), "the pointer reads: " + readout.textContent);
  // What is read back from the path is what the table says of a level that does not change.
  const row = Array.from(document.querySelectorAll("th[scope=row]")).find((cell) => cell.textContent === "limit").parentNode.cells;
  check(row[2].textContent !== row[4].textContent || readout.textContent.includes("limit  " + row[3].textContent.replace(/0$/, "").slice(0, 4)), "limit reads: " + readout.textContent);
  const whole = times();
  key("+");
  check(times() !== whole, "zooming changed no axis");
  check(charts.every((other) => other.querySelector(".plot").getAttribute("transform").includes("scale(2 1)")), "not all charts zoomed");
  key("Escape");
  check(times() === whole, "the axis did not come back: " + times() + " for " + whole);
  key("ArrowRight");
  check(readout.textContent !== "", "an arrow reads nothing");
  const button = chart.parentNode.querySelector(".legend button");
  button.click();
  check(chart.querySelector("[data-mark=\"0\"]").classList.contains("off") && button.getAttribute("aria-pressed") === "false", "a name hid no line");
  button.click();
  pointer("pointerleave", 0);
  dispatchEvent(new Event("beforeprint"));
  check(document.querySelectorAll("details:not([open])").length === 0, "closed details would not be printed");
  const pre = document.createElement("pre");
  pre.id = "checked";
  pre.textContent = window.wrong.length ? "WRONG: " + Array.from(new Set(window.wrong)).join("; ").replace(/\s+/g, " ") : "ALL WELL: " + charts.length + " charts";
  document.body.append(pre);
});
