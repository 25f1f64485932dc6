import { type RefObject, useEffect, useState } from 'react'

/** Returns the width of an element in pixels, updated when it changes. `initialPx` is returned before the first layout. */
export function useWidth(ref: RefObject<HTMLElement | null>, initialPx: number): number {
  const [width, setWidth] = useState(initialPx)
  useEffect(() => {
    const element = ref.current
    if (!element) return
    const observer = new ResizeObserver(() => setWidth(element.clientWidth))
    observer.observe(element)
    return () => observer.disconnect()
  }, [ref])
  return width
}
