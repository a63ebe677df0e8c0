// Pages that stay true: what they show is asked for again and again while the page is visible.

import { isAway, Refused, takeLacking } from "./api.js";

export const EVERY_MS = 5_000;
export const RETRY_MS = 1_000; // while the broker does not answer

let running = 0;

/** Whether what is shown is asked for again and again. */
export function isLive() {
  return running > 0;
}

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
  let asking = null;
  running += 1;

  async function once() {
    clearTimeout(timer);
    let waitMs = everyMs;
    try {
      await update(signal);
      announce(partly(takeLacking()));
    } catch (error) {
      if (signal.aborted || error.name === "AbortError") return;
      if (!(error instanceof Refused)) throw error;
      announce(error);
      if (isAway(error)) waitMs = Math.min(RETRY_MS, everyMs);
    } finally {
      if (!signal.aborted) timer = setTimeout(next, waitMs);
    }
  }

  // One after the other: what was asked for with an older search or order must not be shown last.
  function now() {
    const mine = asking ? asking.then(once) : once();
    asking = mine;
    return mine;
  }

  function next() {
    if (document.visibilityState === "hidden") timer = setTimeout(next, everyMs);
    else now();
  }

  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    running -= 1;
  });
  await now();
  return now;
}

/** What is to be told when some of a cluster have not answered. */
function partly(lacking) {
  const message = `Without ${lacking.join(", ")}, from where no answer comes.`;
  return lacking.length ? { message, partly: true } : null;
}

/** Tell the frame of the page whether what it shows is of now. */
export function announce(error) {
  dispatchEvent(new CustomEvent("freshness", { detail: error }));
}
