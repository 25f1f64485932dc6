import { memo, type RefObject, useEffect, useRef, useState } from 'react'
import type { ComparisonMatrix } from '../../../src/comparisons/shapes/schema.ts'
import { drawTile, isSameList, type MapColors, type MapTile, ROW_PX } from './draw-map.ts'

/** Number of columns on one canvas. Scrolling moves canvases without drawing, and a change of a trial redraws only one. */
const TILE_COLUMNS = 32

type MapTilesProps = {
  matrix: ComparisonMatrix
  /** Position in the matrix of the task of each column. */
  columns: readonly number[]
  /** Position in the matrix of the setting of each row. */
  rows: readonly number[]
  columnPx: number
  /** Distance of the cells from the top of the map in pixels. */
  top: number
  /** The element in which the map scrolls. */
  scroller: RefObject<HTMLDivElement | null>
}

/** Draws the cells of the map. */
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

/** Tiles are drawn when they are at most this far out of view. */
const TILE_MARGIN_PX = 400

/** Draws some columns when they are in view or close to it, and again only if they have changed. */
const Tile = memo(
  ({ left, top, scroller, ...tile }: TileProps) => {
    const canvas = useRef<HTMLCanvasElement>(null)
    const drawnTile = useRef<MapTile>(undefined)
    useEffect(() => {
      const element = canvas.current
      if (!element) return
      const draw = () => {
        drawTile(element, tile, drawnTile.current)
        drawnTile.current = tile
      }
      const observer = new IntersectionObserver(
        (entries) => {
          if (!entries.some(({ isIntersecting }) => isIntersecting)) return
          observer.disconnect()
          queueDrawing(draw)
        },
        { root: scroller.current, rootMargin: `0px ${TILE_MARGIN_PX}px` },
      )
      observer.observe(element)
      return () => {
        observer.disconnect()
        queuedDrawings.delete(draw)
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

const queuedDrawings = new Set<() => void>()

/** Queues the drawing of a tile. Each frame draws one tile, because drawing all cells of a tile takes milliseconds. */
function queueDrawing(draw: () => void): void {
  queuedDrawings.add(draw)
  if (queuedDrawings.size === 1) requestAnimationFrame(drawNext)
}

function drawNext(): void {
  const [draw] = queuedDrawings
  if (!draw) return
  queuedDrawings.delete(draw)
  draw()
  if (queuedDrawings.size > 0) requestAnimationFrame(drawNext)
}

/** Returns the colours of the current theme. Undefined before the element is in the document. */
function useColors(ref: RefObject<HTMLElement | null>): MapColors | undefined {
  const [colors, setColors] = useState<MapColors>()
  useEffect(() => {
    const element = ref.current
    if (!element) return
    const read = () => setColors(readColors(element))
    const themeObserver = new MutationObserver(read)
    const systemTheme = matchMedia('(prefers-color-scheme: dark)')
    themeObserver.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    systemTheme.addEventListener('change', read)
    read()
    return () => {
      themeObserver.disconnect()
      systemTheme.removeEventListener('change', read)
    }
  }, [ref])
  return colors
}

/** Computes the colours of the current theme. An element is needed, because browsers do not resolve custom properties. */
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
