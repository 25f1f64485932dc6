import { startTransition, useEffect, useRef, useState } from 'react'

/** Returns a value with a delay. Changes within the delay appear together. */
export function useDelayed<T>(value: T, delayMs: number): T {
  const [shown, setShown] = useState(value)
  const latest = useRef(value)
  latest.current = value
  const isBehind = value !== shown
  useEffect(() => {
    if (!isBehind) return
    const timer = setTimeout(() => startTransition(() => setShown(latest.current)), delayMs)
    return () => clearTimeout(timer)
  }, [isBehind, delayMs])
  return shown
}
