const IDLE_TIMEOUT_MS = 500
/** Delay in browsers without idle callbacks, such as Safari. */
const FALLBACK_DELAY_MS = 50

/** Waits until the browser is idle, at most half a second. */
export const waitUntilIdle = (): Promise<void> =>
  new Promise((resolve) => {
    if ('requestIdleCallback' in globalThis) requestIdleCallback(() => resolve(), { timeout: IDLE_TIMEOUT_MS })
    else setTimeout(resolve, FALLBACK_DELAY_MS)
  })
