// Lines over time, by uPlot; colours come from the style sheet, so that they change with the theme.

import { h } from "./dom.js";

const HEIGHT = 200;
const MINUTE_S = 60;
const SHOWN_S_MIN = 60;
const POINTS_MAX = 720;

/** The value of a colour of the theme. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * A chart that grows to the right.
 * @param {{title: string, lines: Array<{label: string, colour: string}>, format: (value: number) => string,
 *   signal: AbortSignal}} options
 */
export function chartOf({ title, lines, format, signal }) {
  const values = lines.map(() => h("b", {}, "–"));
  const legend = h(
    "ul",
    { class: "legend" },
    lines.map((line, index) => legendRow(line, values[index])),
  );
  const canvas = h("div", { class: "plot", role: "img", "aria-label": `${title}: no data yet` });
  const element = h("div", {}, canvas, legend);
  let data = [[], ...lines.map(() => [])];
  let plot = null;

  function options(width) {
    const axis = {
      stroke: () => colour("--soft"),
      grid: { stroke: () => colour("--line"), width: 1 },
      ticks: { show: false },
    };
    return {
      width,
      height: HEIGHT,
      cursor: { y: false, points: { size: 6 } },
      legend: { show: false },
      scales: {
        x: { range: (_, first, last) => [Math.min(first, last - SHOWN_S_MIN), last] },
        y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] },
      },
      axes: [
        { ...axis, size: 28, space: 70, values: (_, ticks) => ticks.map((tick) => clock(tick, ticks[1] - ticks[0])) },
        { ...axis, size: 58, values: (_, ticks) => ticks.map(format) },
      ],
      series: [{}, ...lines.map((line) => ({ stroke: () => colour(line.colour), width: 2, points: { show: false } }))],
    };
  }

  function draw() {
    if (!data[0].length) return;
    const width = Math.max(200, Math.floor(canvas.clientWidth));
    if (plot === null) plot = new globalThis.uPlot(options(width), data, canvas);
    else if (plot.width !== width) plot.setSize({ width, height: HEIGHT });
    plot.setData(data);
  }

  /** Show samples: seconds, and what each line had then. */
  function set(given) {
    // One sample is no line: it was like that before, as far as anybody knows.
    const rows = given.length === 1 ? [[given[0][0] - SHOWN_S_MIN, ...given[0].slice(1)], ...given] : given;
    data = [rows.map((row) => row[0]), ...lines.map((_, index) => rows.map((row) => row[index + 1]))];
    const last = rows.at(-1);
    if (!last) return;
    for (const [index, value] of values.entries()) value.textContent = format(last[index + 1]);
    const told = lines.map((line, index) => `${line.label} ${format(last[index + 1])}`).join(", ");
    canvas.setAttribute("aria-label", `${title}: now ${told}`);
    if (canvas.isConnected) draw();
  }

  const sizes = new ResizeObserver(() => draw());
  sizes.observe(canvas);
  const redraw = () => plot?.redraw(false, true);
  addEventListener("theme", redraw, { signal });
  signal.addEventListener("abort", () => {
    sizes.disconnect();
    plot?.destroy();
  });
  return { element, set };
}

/** A time of day: 17:49, or 17:49:05 where the next one is less than a minute away. */
function clock(seconds, step) {
  return new Date(seconds * 1000).toLocaleTimeString("sv-SE").slice(0, step < MINUTE_S ? 8 : 5);
}

function legendRow(line, value) {
  return h(
    "li",
    {},
    h("span", { class: "swatch", styles: { background: `var(${line.colour})` } }),
    line.label,
    " ",
    value,
  );
}

/**
 * Samples that a page has seen: those of the server at first, then one with each look.
 * @param {number} [most]
 */
export function history(most = POINTS_MAX) {
  let rows = [];
  return {
    /** Add samples that are newer than those that are there. */
    add(samples) {
      const last = rows.at(-1)?.[0] ?? 0;
      rows = [...rows, ...samples.filter((row) => row[0] > last)].slice(-most);
      return rows;
    },
  };
}

/**
 * Samples of the management API as rows: levels as they are, counters as what was added in a second.
 * @param {Array<Array<{sample: number, timestamp: number}> | undefined>} series the newest first, as the API has them
 * @param {boolean} [rates]
 * @returns {number[][]}
 */
export function rowsOf(series, rates = false) {
  const [first = []] = series;
  const rows = first
    .map((sample, index) => [sample.timestamp / 1000, ...series.map((each) => each?.[index]?.sample ?? 0)])
    .reverse();
  if (!rates) return rows;
  return rows.slice(1).map((row, index) => {
    const before = rows[index];
    return [row[0], ...row.slice(1).map((value, at) => Math.max(0, (value - before[at + 1]) / (row[0] - before[0])))];
  });
}
