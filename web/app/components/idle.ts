const IDLE_TIMEOUT_MS = 500

/** Waits until the page has painted and has nothing else to do, but not for long. */
export const waitUntilIdle = (): Promise<void> =>
  new Promise((resolve) => {
    // Safari has no idle callbacks.
    if (!globalThis.requestIdleCallback) setTimeout(resolve, 50)
    else requestIdleCallback(() => resolve(), { timeout: IDLE_TIMEOUT_MS })
  })
