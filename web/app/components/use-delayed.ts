import { startTransition, useEffect, useRef, useState } from 'react'

/** Returns a value with a delay. Of several changes within the delay, only the last one appears. */
export function useDelayed<T>(value: T, delayMs: number): T {
  const [shown, setShown] = useState(value)
  const latest = useRef(value)
  latest.current = value
  const isOutdated = value !== shown
  useEffect(() => {
    // `shown` is a dependency, because a value that changed while an older one was being rendered needs another timer.
    if (!isOutdated || latest.current === shown) return
    const timer = setTimeout(() => startTransition(() => setShown(latest.current)), delayMs)
    return () => clearTimeout(timer)
  }, [isOutdated, shown, delayMs])
  return shown
}
