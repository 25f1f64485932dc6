import { startTransition, useEffect, useRef, useState } from 'react'

/** Returns a value with a delay. Changes within the delay appear together. */
export function useDelayed<T>(value: T, delayMs: number): T {
  const [shown, setShown] = useState(value)
  const latest = useRef(value)
  latest.current = value
  const isBehind = value !== shown
  useEffect(() => {
    // Depends on `shown`: a value that changed while an older one was being shown needs a timer of its own.
    if (!isBehind || latest.current === shown) return
    const timer = setTimeout(() => startTransition(() => setShown(latest.current)), delayMs)
    return () => clearTimeout(timer)
  }, [isBehind, shown, delayMs])
  return shown
}
