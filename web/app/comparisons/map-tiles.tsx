import { memo, type RefObject, useEffect, useRef, useState } from 'react'
import type { ComparisonMatrix } from '../../../src/comparisons/shapes/schema.ts'
import { drawTile, isSameList, type MapColors, type MapTile, ROW_PX } from './draw-map.ts'

/** Columns that are drawn together. Scrolling moves them without drawing, and a trial that ends changes one of them. */
const TILE_COLUMNS = 32

type MapTilesProps = {
  matrix: ComparisonMatrix
  /** Positions of tasks and settings in the order in which they are shown. */
  columns: readonly number[]
  rows: readonly number[]
  columnPx: number
  top: number
  scroller: RefObject<HTMLDivElement | null>
}

/** The cells of the map. */
export function MapTiles({ matrix, columns, rows, columnPx, top, scroller }: MapTilesProps) {
  const colors = useColors(scroller)
  if (!colors) return null
  const starts = Array.from({ length: Math.ceil(columns.length / TILE_COLUMNS) }, (_, index) => index * TILE_COLUMNS)
  return starts.map((from) => (
    <Tile
      key={from}
      columns={columns.slice(from, from + TILE_COLUMNS).map((position) => matrix.tasks[position]?.cells ?? '')}
      attempts={matrix.attempts}
      left={from * columnPx}
      rows={rows}
      columnPx={columnPx}
      colors={colors}
      top={top}
      scroller={scroller}
    />
  ))
}

type TileProps = MapTile & { left: number; top: number; scroller: RefObject<HTMLDivElement | null> }

const TILE_MARGIN_PX = 400

/** Draws some columns when they are in view or close to it, and again only if they have changed. */
const Tile = memo(
  ({ left, top, scroller, ...tile }: TileProps) => {
    const canvas = useRef<HTMLCanvasElement>(null)
    const drawn = useRef<MapTile>(undefined)
    useEffect(() => {
      const surface = canvas.current
      if (!surface) return
      const draw = () => {
        drawTile(surface, tile, drawn.current)
        drawn.current = tile
      }
      const observer = new IntersectionObserver(
        (entries) => {
          if (!entries.some(({ isIntersecting }) => isIntersecting)) return
          observer.disconnect()
          queueDrawing(draw)
        },
        { root: scroller.current, rootMargin: `0px ${TILE_MARGIN_PX}px` },
      )
      observer.observe(surface)
      return () => {
        observer.disconnect()
        drawings.delete(draw)
      }
    })
    const size = { width: tile.columns.length * tile.columnPx, height: tile.rows.length * ROW_PX }
    return <canvas ref={canvas} style={{ left, top, ...size }} />
  },
  (before, after) =>
    before.colors === after.colors &&
    before.columnPx === after.columnPx &&
    before.top === after.top &&
    before.attempts === after.attempts &&
    isSameList(before.rows, after.rows) &&
    isSameList(before.columns, after.columns),
)

const drawings = new Set<() => void>()

/**
 * Draws in one of the next frames. Each frame draws one tile, because a tile whose cells have moved takes
 * milliseconds.
 */
function queueDrawing(draw: () => void): void {
  drawings.add(draw)
  if (drawings.size === 1) requestAnimationFrame(drawNext)
}

function drawNext(): void {
  const [draw] = drawings
  if (!draw) return
  drawings.delete(draw)
  draw()
  if (drawings.size > 0) requestAnimationFrame(drawNext)
}

/** Returns the colours of the current theme. Undefined before the element is in the document. */
function useColors(ref: RefObject<HTMLElement | null>): MapColors | undefined {
  const [colors, setColors] = useState<MapColors>()
  useEffect(() => {
    const element = ref.current
    if (!element) return
    const read = () => setColors(readColors(element))
    const theme = new MutationObserver(read)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    theme.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    scheme.addEventListener('change', read)
    read()
    return () => {
      theme.disconnect()
      scheme.removeEventListener('change', read)
    }
  }, [ref])
  return colors
}

/** Resolves the tokens for the current theme. Custom properties themselves are not resolved by the browser. */
function readColors(element: HTMLElement): MapColors {
  const probe = document.createElement('i')
  element.append(probe)
  const read = (token: string): string => {
    probe.style.color = `var(--${token})`
    return getComputedStyle(probe).color
  }
  const colors = { pass: read('pass'), fail: read('fail'), run: read('run'), wait: read('control'), ink: read('ink-2') }
  probe.remove()
  return colors
}
