import { type CellState, readCell } from './map-model.ts'

export const ROW_PX = 22
const COLUMN_MAX_PX = 15
const COLUMN_MIN_PX = 8

/** Returns the width of a column: as wide as fits, within limits. */
export const toColumnWidth = (width: number, tasks: number): number =>
  Math.max(COLUMN_MIN_PX, Math.min(COLUMN_MAX_PX, Math.floor(width / Math.max(1, tasks))))

/** Colours of the states, resolved for the current theme. */
export type MapColors = Record<'pass' | 'fail' | 'run' | 'wait' | 'ink', string>

export type MapCell = { task: number; setting: number }

/** Some neighbouring columns of the map. */
export type MapTile = {
  /** The cells of each task. */
  columns: readonly string[]
  attempts: number
  /** Positions of the settings in the order in which they are shown. */
  rows: readonly number[]
  columnPx: number
  colors: MapColors
}

type Mark = { x: number; y: number; width: number; height: number; share: number }

/**
 * Draws some columns. Each state has a shape of its own, so that the map can be read without colours. Draws only the cells
 * that differ from `drawn`, the same tile as it was drawn before.
 */
export function drawTile(canvas: HTMLCanvasElement, tile: MapTile, drawn: MapTile | undefined): void {
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
  const drawnColumns = hasTileSize && drawn && isSameGrid(drawn, tile) ? drawn.columns : undefined
  if (!drawnColumns) context.clearRect(0, 0, width, height)
  const marks = collectMarks(tile, drawnColumns)
  if (drawnColumns)
    for (const { x, y } of [...marks.values()].flat()) context.clearRect(x - 1, y - 3, tile.columnPx, ROW_PX)
  for (const [state, stateMarks] of marks) paintState(context, tile.colors, state, stateMarks)
}

const isSameGrid = (a: MapTile, b: MapTile): boolean =>
  a.colors === b.colors &&
  a.columnPx === b.columnPx &&
  a.attempts === b.attempts &&
  isSameList(a.rows, b.rows) &&
  a.columns.length === b.columns.length

export const isSameList = <T>(before: readonly T[], after: readonly T[]): boolean =>
  before.length === after.length && before.every((value, index) => value === after[index])

/** Collects the changed cells by state, because one path per state is much faster than one per cell. */
function collectMarks(tile: MapTile, drawnColumns: readonly string[] | undefined): Map<CellState, Mark[]> {
  const { columns, attempts, rows, columnPx } = tile
  const marks = new Map<CellState, Mark[]>()
  const gap = columnPx > 11 ? 3 : 2
  for (const [column, cells] of columns.entries()) {
    for (const row of listChangedRows(tile, drawnColumns?.[column], cells)) {
      const { state, share } = readCell(cells, attempts, rows[row] ?? 0)
      const mark = {
        x: column * columnPx + 1,
        y: row * ROW_PX + 3,
        width: columnPx - gap,
        height: ROW_PX - 7,
        share,
      }
      const list = marks.get(state)
      if (list) list.push(mark)
      else marks.set(state, [mark])
    }
  }
  return marks
}

/** Lists the rows of a column whose cells differ from those that were drawn. Lists all rows if none were drawn. */
function listChangedRows({ rows, attempts }: MapTile, drawn: string | undefined, cells: string): number[] {
  if (drawn === cells) return []
  const all = [...rows.keys()]
  if (drawn === undefined) return all
  const readRow = (column: string, row: number) => {
    const setting = rows[row] ?? 0
    return column.slice(setting * attempts, (setting + 1) * attempts)
  }
  return all.filter((row) => readRow(drawn, row) !== readRow(cells, row))
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
  outline: (inset: number) => Path2D
}

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
