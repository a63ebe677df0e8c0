// Pages that stay true: what they show is asked for again and again while the page is visible.

import { Refused, takeLacking } from "./api.js";

export const EVERY_MS = 5_000;

/**
 * Do something now and then, until the signal says that the page was left. A hidden tab asks for nothing.
 * Gives a function that does it at once.
 * @param {(signal: AbortSignal) => Promise<void>} update
 * @param {AbortSignal} signal
 * @param {number} [everyMs]
 * @returns {Promise<() => Promise<void>>}
 */
export async function live(update, signal, everyMs = EVERY_MS) {
  let timer = 0;
  let running = null;

  async function once() {
    clearTimeout(timer);
    try {
      await update(signal);
      announce(partly(takeLacking()));
    } catch (error) {
      if (signal.aborted || error.name === "AbortError") return;
      if (!(error instanceof Refused)) throw error;
      announce(error);
    } finally {
      if (!signal.aborted) timer = setTimeout(next, everyMs);
    }
  }

  // One after the other: what was asked for with an older search or order must not be shown last.
  function now() {
    const mine = running ? running.then(once) : once();
    running = mine;
    return mine;
  }

  function next() {
    if (document.visibilityState === "hidden") timer = setTimeout(next, everyMs);
    else now();
  }

  signal.addEventListener("abort", () => clearTimeout(timer));
  await now();
  return now;
}

/** What is to be told when some of a cluster have not answered. */
function partly(lacking) {
  const message = `Without ${lacking.join(", ")}, from where no answer comes.`;
  return lacking.length ? { message, partly: true } : null;
}

/** Tell the frame of the page whether what it shows is of now. */
function announce(error) {
  dispatchEvent(new CustomEvent("freshness", { detail: error }));
}
