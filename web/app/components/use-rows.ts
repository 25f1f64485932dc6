import { elementScroll, useVirtualizer, type Virtualizer } from '@tanstack/react-virtual'
import type { RefObject } from 'react'

type RowsOptions = { count: number; rowPx: number; overscan: number }

/** Height that the region is assumed to have until the browser has laid it out. */
const REGION_PX = 600

/**
 * Virtualizes the rows of a region that scrolls. Sizes come only from observers: reading them while the page is being built
 * would make the browser lay it out several times.
 */
export const useRows = (region: RefObject<HTMLElement | null>, { count, rowPx, overscan }: RowsOptions) =>
  useVirtualizer<HTMLElement, HTMLElement>({
    count,
    overscan,
    estimateSize: () => rowPx,
    getScrollElement: () => region.current,
    initialRect: { width: REGION_PX, height: REGION_PX },
    observeElementRect: observeRegion,
    measureElement: measureRow,
    // A new region is at its beginning already.
    scrollToFn: (offset, options, instance) => {
      if (offset !== 0 || options.adjustments || instance.scrollOffset) elementScroll(offset, options, instance)
    },
  })

type RowsVirtualizer = Virtualizer<HTMLElement, HTMLElement>

function observeRegion(
  { scrollElement }: RowsVirtualizer,
  onResize: (rect: { width: number; height: number }) => void,
) {
  if (!scrollElement) return undefined
  const observer = new ResizeObserver(([entry]) => {
    const box = entry?.borderBoxSize[0]
    if (box) onResize({ width: Math.round(box.inlineSize), height: Math.round(box.blockSize) })
  })
  observer.observe(scrollElement)
  return () => observer.disconnect()
}

function measureRow(row: HTMLElement, entry: ResizeObserverEntry | undefined, instance: RowsVirtualizer): number {
  const box = entry?.borderBoxSize[0]
  if (box) return Math.round(box.blockSize)
  const index = instance.indexFromElement(row)
  return instance.itemSizeCache.get(instance.options.getItemKey(index)) ?? instance.options.estimateSize(index)
}
