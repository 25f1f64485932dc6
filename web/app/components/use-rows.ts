import { elementScroll, useVirtualizer, type Virtualizer } from '@tanstack/react-virtual'
import type { RefObject } from 'react'

/** `rowPx` is the assumed height of a row, `overscan` the number of rows to render beyond the visible ones. */
type RowsOptions = { count: number; rowPx: number; overscan: number }

/** Height that the region is assumed to have until the browser has laid it out. */
const REGION_PX = 600

/**
 * Virtualizes the rows of a region that scrolls: only visible rows are in the document. Sizes come only from observers,
 * because measuring elements while the page is being built would make the browser compute the layout several times.
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
    scrollToFn: (offset, options, instance) => {
      const isAtOffset = offset === 0 && !options.adjustments && !instance.scrollOffset
      if (!isAtOffset) elementScroll(offset, options, instance)
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
