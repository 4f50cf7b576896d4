// SPDX-License-Identifier: GPL-2.0-only
// Values under the pointer, zoom in time, series on and off. Nothing here is needed to read the page.
// All charts show the same stretch of time: drag to choose one, double click (or Escape) to see all of it.
"use strict";
(function () {
  const SVG = "http://www.w3.org/2000/svg";
  const charts = Array.from(document.querySelectorAll("svg.chart"), chart);
  let from = 0, to = 1;

  function chart(svg) {
    const box = svg.dataset.box.split(" ").map(Number);
    const cursor = document.createElementNS(SVG, "path");
    cursor.setAttribute("class", "cursor");
    const chosen = document.createElementNS(SVG, "rect");
    chosen.setAttribute("class", "chosen");
    svg.append(cursor, chosen);
    return {
      svg, cursor, chosen,
      left: box[0], top: box[1], width: box[2], height: box[3],
      seconds: Number(svg.dataset.seconds), low: Number(svg.dataset.low), high: Number(svg.dataset.high),
      unit: svg.dataset.unit, log: svg.dataset.scale === "log", plot: svg.querySelector(".plot"), readout: svg.parentNode.querySelector(".readout"),
      marks: Array.from(svg.querySelectorAll("[data-mark]")), at: null,
    };
  }

  // A path's points, in tenths; a gap is null.
  function points(mark) {
    if (mark.points) return mark.points;
    const out = [];
    let x = 0, y = 0, command = "M", numbers = [];
    for (const token of mark.getAttribute("d").match(/[A-Za-z]|-?\d+/g) || []) {
      if (/[A-Za-z]/.test(token)) {
        // The way back along the axis closes an area, and is no value.
        if (token === "L") break;
        command = token;
        numbers = [];
        continue;
      }
      if (command === "h") continue;
      numbers.push(Number(token));
      if (numbers.length === 2) {
        if (command === "M") { if (out.length) out.push(null); [x, y] = numbers; }
        else { x += numbers[0]; y += numbers[1]; }
        out.push([x, y]);
        numbers = [];
      }
    }
    return mark.points = out;
  }

  function valueOf(chart, tenths) {
    const part = 1 - tenths / 10 / chart.height;
    return chart.log ? chart.low * Math.pow(chart.high / chart.low, part) : chart.low + part * (chart.high - chart.low);
  }

  function words(value, unit) {
    const digits = (v) => Math.abs(v) >= 99.95 || v === 0 ? v.toFixed(0) : Math.abs(v) >= 9.995 ? v.toFixed(1) : v.toFixed(2);
    if (unit === "percent") return digits(value) + " %";
    if (unit === "ratio") return digits(value);
    if (unit === "seconds") return value >= 1 ? digits(value) + " s" : digits(value * 1000) + " ms";
    const size = [[1073741824, " GiB"], [1048576, " MiB"], [1024, " KiB"], [1, " B"]].find((s) => Math.abs(value) >= s[0]) || [1, " B"];
    return digits(value / size[0]) + size[1] + (unit === "rate" ? "/s" : "");
  }

  // The height of a line at x, between its points.
  function lineAt(all, x) {
    for (let i = 1; all.length > i; i++) {
      const a = all[i - 1], b = all[i];
      if (a && b && x >= a[0] && b[0] >= x) return b[0] === a[0] ? b[1] : a[1] + (b[1] - a[1]) * (x - a[0]) / (b[0] - a[0]);
    }
    return null;
  }

  function read(chart, part) {
    const x = part * chart.width * 10, reach = 40 * (to - from);
    const rows = [];
    let above = null;
    for (const mark of chart.marks) {
      if (mark.classList.contains("off")) continue;
      const all = points(mark);
      if (mark.classList.contains("dots")) {
        const near = all.filter((p) => p && reach >= Math.abs(p[0] - x)).map((p) => valueOf(chart, p[1]));
        if (near.length) {
          const least = words(Math.min(...near), chart.unit), most = words(Math.max(...near), chart.unit);
          rows.push([0, mark.dataset.name + "  " + (least === most ? least : least + " .. " + most)]);
        }
        continue;
      }
      const y = lineAt(all, x);
      if (y === null) continue;
      const value = valueOf(chart, y);
      const row = [value, mark.dataset.name + "  " + words(value, chart.unit)];
      // An area reaches up to the sum: its own part is what it has more than the next.
      if (mark.classList.contains("area")) {
        if (above) above[1] = above[2] + "  " + words(above[0] - value, chart.unit);
        row[2] = mark.dataset.name;
        above = row;
      }
      rows.push(row);
    }
    rows.sort((a, b) => b[0] - a[0]);
    const more = rows.length > 14 ? ["... and " + (rows.length - 14) + " more"] : [];
    return ["at " + (part * chart.seconds).toFixed(3) + " s"].concat(rows.slice(0, 14).map((row) => row[1]), more).join("\n");
  }

  function point(chart, part) {
    chart.at = part;
    const across = (part - from) / (to - from);
    const inside = part !== null && across >= 0 && 1 >= across;
    chart.cursor.setAttribute("d", inside ? "M" + (chart.left + across * chart.width) + " " + chart.top + "v" + chart.height : "");
    chart.readout.textContent = inside ? read(chart, part) : "";
    chart.readout.style.right = across > 0.5 ? "auto" : "0";
    chart.readout.style.left = across > 0.5 ? (100 * chart.left / 760) + "%" : "auto";
  }

  function zoom(first, last) {
    from = Math.max(0, first);
    to = Math.min(1, last);
    if (1e-4 > to - from) { from = 0; to = 1; }
    for (const chart of charts) {
      const stretch = 1 / (to - from);
      chart.plot.setAttribute("transform", "translate(" + -from * chart.width * stretch + " 0) scale(" + stretch + " 1)");
      times(chart);
      for (const group of chart.svg.querySelectorAll(".phases > *")) group.classList.toggle("off", stretch > 1);
      point(chart, null);
    }
  }

  function times(chart) {
    const begin = from * chart.seconds, length = (to - from) * chart.seconds;
    const power = Math.pow(10, Math.floor(Math.log10(length / 8)));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((s) => s >= length / 8 * 0.999);
    const group = chart.svg.querySelector(".times"), bottom = chart.top + chart.height;
    group.replaceChildren();
    for (let n = Math.ceil(begin / step - 1e-9); begin + length * 1.0000001 >= n * step; n++) {
      const x = chart.left + (n * step - begin) / length * chart.width;
      const mark = document.createElementNS(SVG, "path"), text = document.createElementNS(SVG, "text");
      mark.setAttribute("d", "M" + x + " " + bottom + "v5");
      text.setAttribute("x", x);
      text.setAttribute("y", bottom + 22);
      text.setAttribute("text-anchor", "middle");
      text.textContent = String(Number((n * step).toFixed(6)));
      group.append(mark, text);
    }
  }

  // Where a pointer is, as a part of the whole time.
  function partOf(chart, event) {
    const rect = chart.svg.getBoundingClientRect();
    const x = (event.clientX - rect.left) * 760 / rect.width - chart.left;
    return from + Math.min(1, Math.max(0, x / chart.width)) * (to - from);
  }

  for (const chart of charts) {
    let start = null;
    const draw = (a, b) => {
      const x = (part) => chart.left + (part - from) / (to - from) * chart.width;
      chart.chosen.setAttribute("x", x(Math.min(a, b)));
      chart.chosen.setAttribute("y", chart.top);
      chart.chosen.setAttribute("width", Math.abs(x(a) - x(b)));
      chart.chosen.setAttribute("height", chart.height);
    };
    chart.svg.addEventListener("pointermove", (event) => {
      const part = partOf(chart, event);
      for (const other of charts) point(other, other === chart ? part : null);
      if (start !== null) draw(start, part);
    });
    chart.svg.addEventListener("pointerleave", () => point(chart, null));
    chart.svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) { start = partOf(chart, event); chart.svg.setPointerCapture(event.pointerId); }
    });
    chart.svg.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const end = partOf(chart, event), first = Math.min(start, end), last = Math.max(start, end);
      start = null;
      chart.chosen.setAttribute("width", 0);
      if (last - first > 0.01 * (to - from)) zoom(first, last);
    });
    chart.svg.addEventListener("dblclick", () => zoom(0, 1));
    chart.svg.addEventListener("keydown", (event) => {
      const at = chart.at === null ? (from + to) / 2 : chart.at, width = to - from;
      const keys = {
        ArrowLeft: () => point(chart, Math.max(from, at - width / 100)),
        ArrowRight: () => point(chart, Math.min(to, at + width / 100)),
        "+": () => zoom(at - width / 4, at + width / 4),
        "-": () => zoom(at - width, at + width),
        Escape: () => zoom(0, 1),
      };
      if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
    });
    for (const button of chart.svg.parentNode.querySelectorAll(".legend button")) {
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        chart.marks[Number(button.dataset.mark)].classList.toggle("off", !on);
      });
    }
  }
  // Paper shows no details that are closed.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
})();
