import { type CellState, readCell } from './map-model.ts'

export const ROW_PX = 22
const COLUMN_MAX_PX = 15
const COLUMN_MIN_PX = 8
/** Distance of the mark of a cell from the left and the top edge of the cell. */
const MARK_LEFT_PX = 1
const MARK_TOP_PX = 3
const MARK_HEIGHT_PX = ROW_PX - 7
/** Columns above this width have a wider gap between marks. */
const NARROW_COLUMN_MAX_PX = 11

/** Returns the width at which all columns fit into the map, within limits. */
export const toColumnPx = (mapPx: number, columns: number): number =>
  Math.max(COLUMN_MIN_PX, Math.min(COLUMN_MAX_PX, Math.floor(mapPx / Math.max(1, columns))))

/** Colours of the states, resolved for the current theme. */
export type MapColors = Record<'pass' | 'fail' | 'run' | 'wait' | 'ink', string>

/** A cell, by the positions of its task and its setting in the matrix. */
export type MapCell = { task: number; setting: number }

/** Neighbouring columns of the map that are drawn on one canvas. */
export type MapTile = {
  /** The cells of the task of each column, as in the matrix. */
  columns: readonly string[]
  attempts: number
  /** Position in the matrix of the setting of each row. */
  rows: readonly number[]
  columnPx: number
  colors: MapColors
}

/** Rectangle in which the state of a cell is drawn. `share` is the share of its scored trials that passed. */
type Mark = { x: number; y: number; width: number; height: number; share: number }

/**
 * Draws a tile. Each state has its own shape, so that the map can be read without colours. `drawnTile` is what the canvas
 * shows now; only cells that differ from it are drawn again.
 */
export function drawTile(canvas: HTMLCanvasElement, tile: MapTile, drawnTile: MapTile | undefined): void {
  const context = canvas.getContext('2d')
  if (!context) return
  const scale = devicePixelRatio
  const [width, height] = [tile.columns.length * tile.columnPx, tile.rows.length * ROW_PX]
  const hasTileSize = canvas.width === Math.round(width * scale) && canvas.height === Math.round(height * scale)
  if (!hasTileSize) {
    canvas.width = Math.round(width * scale)
    canvas.height = Math.round(height * scale)
  }
  context.setTransform(scale, 0, 0, scale, 0, 0)
  const drawnColumns = hasTileSize && drawnTile && isSameGrid(drawnTile, tile) ? drawnTile.columns : undefined
  const marks = collectMarks(tile, drawnColumns)
  if (drawnColumns) clearCells(context, tile, [...marks.values()].flat())
  else context.clearRect(0, 0, width, height)
  for (const [state, stateMarks] of marks) paintState(context, tile.colors, state, stateMarks)
}

function clearCells(context: CanvasRenderingContext2D, { columnPx }: MapTile, marks: readonly Mark[]): void {
  for (const { x, y } of marks) context.clearRect(x - MARK_LEFT_PX, y - MARK_TOP_PX, columnPx, ROW_PX)
}

/** Returns true if both tiles have the same columns, rows and colours, so that only cells can differ. */
const isSameGrid = (a: MapTile, b: MapTile): boolean =>
  a.colors === b.colors &&
  a.columnPx === b.columnPx &&
  a.attempts === b.attempts &&
  isSameList(a.rows, b.rows) &&
  a.columns.length === b.columns.length

export const isSameList = <T>(before: readonly T[], after: readonly T[]): boolean =>
  before.length === after.length && before.every((value, index) => value === after[index])

/** Collects the marks of changed cells by state, because drawing one path per state is faster than one per cell. */
function collectMarks(tile: MapTile, drawnColumns: readonly string[] | undefined): Map<CellState, Mark[]> {
  const { columns, attempts, rows, columnPx } = tile
  const marks = new Map<CellState, Mark[]>()
  const gapPx = columnPx > NARROW_COLUMN_MAX_PX ? 3 : 2
  for (const [column, cells] of columns.entries()) {
    for (const row of listChangedRows(tile, drawnColumns?.[column], cells)) {
      const { state, share } = readCell(cells, attempts, rows[row] ?? 0)
      const mark = {
        x: column * columnPx + MARK_LEFT_PX,
        y: row * ROW_PX + MARK_TOP_PX,
        width: columnPx - gapPx,
        height: MARK_HEIGHT_PX,
        share,
      }
      const stateMarks = marks.get(state)
      if (stateMarks) stateMarks.push(mark)
      else marks.set(state, [mark])
    }
  }
  return marks
}

/** Lists the rows of a column whose cells differ from the drawn ones. Lists all rows if the column was not drawn. */
function listChangedRows({ rows, attempts }: MapTile, drawnCells: string | undefined, cells: string): number[] {
  if (drawnCells === cells) return []
  const allRows = [...rows.keys()]
  if (drawnCells === undefined) return allRows
  const sliceRow = (columnCells: string, row: number) => {
    const setting = rows[row] ?? 0
    return columnCells.slice(setting * attempts, (setting + 1) * attempts)
  }
  return allRows.filter((row) => sliceRow(drawnCells, row) !== sliceRow(cells, row))
}

function paintState(context: CanvasRenderingContext2D, colors: MapColors, state: CellState, marks: Mark[]): void {
  const paint = PAINTERS[state]
  if (!paint) return
  context.lineWidth = 1.5
  const outline = (inset: number): Path2D => {
    const path = new Path2D()
    for (const { x, y, width, height } of marks)
      path.roundRect(x + inset, y + inset, width - 2 * inset, height - 2 * inset, 2.5)
    return path
  }
  paint({ context, colors, marks, outline })
}

type PaintInput = {
  context: CanvasRenderingContext2D
  colors: MapColors
  marks: readonly Mark[]
  /** Returns the outlines of all marks, reduced by `inset` pixels on every side. */
  outline: (inset: number) => Path2D
}

/** Draws all cells of a state. Cells without a trial stay empty. */
const PAINTERS: Partial<Record<CellState, (input: PaintInput) => void>> = {
  passed({ context, colors, outline }) {
    context.fillStyle = colors.pass
    context.fill(outline(0))
  },
  failed({ context, colors, outline }) {
    context.strokeStyle = colors.fail
    context.stroke(outline(0.75))
  },
  mixed({ context, colors, marks, outline }) {
    context.strokeStyle = colors.pass
    context.stroke(outline(0.75))
    context.fillStyle = colors.pass
    for (const { x, y, width, height, share } of marks)
      context.fillRect(x, y + height * (1 - share), width, height * share)
  },
  running({ context, colors, marks, outline }) {
    context.fillStyle = colors.run
    context.globalAlpha = 0.3
    context.fill(outline(0))
    context.globalAlpha = 1
    context.fill(toDots(marks, 2.5))
  },
  queued({ context, colors, marks }) {
    context.fillStyle = colors.wait
    context.fill(toDots(marks, 1.5))
  },
  errored({ context, colors, marks }) {
    context.strokeStyle = colors.ink
    const path = new Path2D()
    for (const { x, y, width, height } of marks) {
      const [centerX, centerY, arm] = [x + width / 2, y + height / 2, Math.min(4, width / 2)]
      path.moveTo(centerX - arm, centerY - arm)
      path.lineTo(centerX + arm, centerY + arm)
      path.moveTo(centerX + arm, centerY - arm)
      path.lineTo(centerX - arm, centerY + arm)
    }
    context.stroke(path)
  },
  canceled({ context, colors, marks }) {
    context.fillStyle = colors.wait
    for (const { x, y, width, height } of marks) context.fillRect(x + 1, y + height / 2 - 1, width - 2, 2)
  },
}

function toDots(marks: readonly Mark[], radius: number): Path2D {
  const path = new Path2D()
  for (const { x, y, width, height } of marks) {
    const [centerX, centerY] = [x + width / 2, y + height / 2]
    path.moveTo(centerX + radius, centerY)
    path.arc(centerX, centerY, radius, 0, 2 * Math.PI)
  }
  return path
}
