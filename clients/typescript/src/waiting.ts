// Waiting that a signal ends, and combining signals: what node 20.0 and older browsers lack.

/** Throws the signal's reason if it is aborted. */
export function check(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw signal.reason;
}

/** Waits; rejects with the signal's reason as soon as it is aborted. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    check(signal);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** A controller that is also aborted by others; `unlink` lets go of them, so that a long-lived signal keeps nothing alive. */
export function linked(...others: (AbortSignal | undefined)[]): { controller: AbortController; unlink: () => void } {
  const controller = new AbortController();
  const links = others.filter((other) => other !== undefined).map((other) => {
    const abort = () => controller.abort(other.reason);
    if (other.aborted) abort();
    other.addEventListener("abort", abort, { once: true });
    return () => other.removeEventListener("abort", abort);
  });
  return { controller, unlink: () => links.forEach((link) => link()) };
}

/** The pause before a repetition: grows with the attempts, and differs between clients, so that they do not come back at once. */
export function pause(attempt: number, first = 100, longest = 5_000): number {
  return Math.min(longest, first * 2 ** attempt) * (0.5 + Math.random() / 2);
}

/** Lets a program end while a timer waits; a browser has no need of it. */
export function unref(timer: unknown): void {
  (timer as { unref?: () => void }).unref?.();
}
