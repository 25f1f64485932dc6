import { type KeyboardEvent, type MouseEvent, type RefObject, useEffect, useMemo, useRef, useState } from 'react'
import type { ComparisonMatrix, ComparisonSetting } from '../../../src/comparisons/shapes/schema.ts'
import { percent } from '../../components/format.ts'
import { Card } from '../components/page.tsx'
import { drawMap, type MapCell, type MapColors, ROW_PX, toColumnWidth } from './draw-map.ts'
import { groupTasks, orderSettings, orderTasks, type TaskOrder, toCell } from './map-model.ts'
import { createNames, isControl } from './text.ts'

type TrialMapProps = {
  matrix: ComparisonMatrix
  settings: readonly ComparisonSetting[]
  selected: MapCell | undefined
  onSelect: (cell: MapCell) => void
  /** Called for Enter and a double click. */
  onOpen: (cell: MapCell) => void
}

/** Tasks × settings. Drawn on a canvas, so that 300 × 60 cells cost one element. */
export function TrialMap({ matrix, settings, selected, onSelect, onOpen }: TrialMapProps) {
  const [order, setOrder] = useState<TaskOrder>('difficulty')
  const counted = useMemo(() => {
    const controls = new Set(settings.filter(isControl).map(({ id }) => id))
    return matrix.settings.flatMap((id, position) => (controls.has(id) ? [] : [position]))
  }, [matrix, settings])
  const columns = useMemo(() => orderTasks(matrix, order, counted), [matrix, order, counted])
  const rows = useMemo(() => {
    const accuracy = new Map(settings.map((setting) => [setting.id, setting.accuracy]))
    return orderSettings(matrix, (id) => accuracy.get(id) ?? null)
  }, [matrix, settings])
  const isGrouped = order === 'difficulty'
  return (
    <Card
      title="Tasks × settings"
      actions={
        <>
          <MapLegend />
          <button
            type="button"
            className="button"
            aria-pressed={isGrouped}
            onClick={() => setOrder(isGrouped ? 'plan' : 'difficulty')}
          >
            Group by difficulty
          </button>
        </>
      }
    >
      <div className="map">
        <RowLabels rows={rows} matrix={matrix} settings={settings} isGrouped={isGrouped} />
        <MapCells {...{ matrix, rows, columns, selected, onSelect, onOpen, settings, isGrouped, counted }} />
      </div>
      <p className="small muted">
        {isGrouped ? 'Columns are tasks, hardest on the right. ' : 'Columns are tasks in the order of the plan. '}
        <kbd>←↑↓→</kbd> move · <kbd>Enter</kbd> shows the task in every setting
      </p>
    </Card>
  )
}

const LEGEND = ['passed', 'failed', 'running', 'errored', 'queued'] as const

const MapLegend = () => (
  <ul className="map-legend small muted" aria-label="Legend">
    {LEGEND.map((state) => (
      <li key={state}>
        <span className={`mark ${state}`} /> {state}
      </li>
    ))}
  </ul>
)

type RowLabelsProps = {
  rows: readonly number[]
  matrix: ComparisonMatrix
  settings: readonly ComparisonSetting[]
  isGrouped: boolean
}

function RowLabels({ rows, matrix, settings, isGrouped }: RowLabelsProps) {
  const byId = new Map(settings.map((setting) => [setting.id, setting]))
  const name = createNames(settings)
  return (
    <ol className={isGrouped ? 'map-rows grouped' : 'map-rows'}>
      {rows.map((position) => {
        const id = matrix.settings[position] ?? ''
        const accuracy = byId.get(id)?.accuracy ?? null
        return (
          <li key={id}>
            <bdi className="name" title={name(id)}>
              {name(id)}
            </bdi>
            <b className="number">{accuracy === null ? '–' : percent(accuracy)}</b>
          </li>
        )
      })}
    </ol>
  )
}

type MapCellsProps = TrialMapProps & {
  rows: readonly number[]
  columns: readonly number[]
  isGrouped: boolean
  /** Positions of the settings that decide how difficult a task is. */
  counted: readonly number[]
}

const STEPS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  Home: [-1e6, 0],
  End: [1e6, 0],
}

function MapCells(props: MapCellsProps) {
  const { matrix, rows, columns, selected, onSelect, onOpen, settings, isGrouped, counted } = props
  const scroller = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const columnPx = useDrawing(scroller, canvas, props)
  const groups = useMemo(
    () => (isGrouped ? groupTasks(matrix, columns, counted) : []),
    [matrix, columns, isGrouped, counted],
  )
  const select = (column: number, row: number) => {
    const [task, setting] = [columns[clamp(column, columns.length)], rows[clamp(row, rows.length)]]
    if (task === undefined || setting === undefined) return
    onSelect({ task, setting })
    revealColumn(scroller.current, clamp(column, columns.length) * columnPx, columnPx)
  }
  const press = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && selected) return onOpen(selected)
    const step = STEPS[event.key]
    if (!step) return
    event.preventDefault()
    const [column, row] = selected
      ? [columns.indexOf(selected.task), rows.indexOf(selected.setting)]
      : [-step[0], -step[1]]
    select(column + step[0], row + step[1])
  }
  const click = (event: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect()
    if (!box) return
    const x = event.clientX - box.left + (scroller.current?.scrollLeft ?? 0)
    select(Math.floor(x / columnPx), Math.floor((event.clientY - box.top) / ROW_PX))
  }
  return (
    <div
      ref={scroller}
      className="map-scroll"
      role="application"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the map is moved through with the arrow keys
      tabIndex={0}
      aria-label={`Map of ${columns.length} tasks and ${rows.length} settings. Arrow keys move, Enter opens.`}
      aria-describedby="map-cell"
      onKeyDown={press}
      onClick={click}
      onDoubleClick={() => selected && onOpen(selected)}
    >
      <div className="map-space" style={{ width: columns.length * columnPx, paddingTop: isGrouped ? ROW_PX : 0 }}>
        {groups.filter(isLabelled(columnPx)).map(({ label, from, to }) => (
          <span key={label} className="map-group" style={{ left: from * columnPx, width: (to - from) * columnPx }}>
            {label}
          </span>
        ))}
        <canvas ref={canvas} style={{ height: rows.length * ROW_PX }} />
      </div>
      <p id="map-cell" className="hidden" aria-live="polite">
        {selected && describeCell(matrix, settings, selected)}
      </p>
    </div>
  )
}

/** Width from which on the label of a group is readable. */
const GROUP_LABEL_PX = 48
const isLabelled = (columnPx: number) => (group: { from: number; to: number }) =>
  (group.to - group.from) * columnPx >= GROUP_LABEL_PX

const clamp = (value: number, length: number): number => Math.max(0, Math.min(length - 1, value))

function revealColumn(scroller: HTMLDivElement | null, left: number, width: number): void {
  if (!scroller) return
  const right = left + width
  if (left < scroller.scrollLeft) scroller.scrollLeft = left
  if (right > scroller.scrollLeft + scroller.clientWidth) scroller.scrollLeft = right - scroller.clientWidth
}

function describeCell(
  matrix: ComparisonMatrix,
  settings: readonly ComparisonSetting[],
  { task, setting }: MapCell,
): string {
  const { state } = toCell(matrix, task, setting)
  const name = createNames(settings)(matrix.settings[setting] ?? '')
  return `${matrix.tasks[task]?.name ?? ''} · ${name}: ${state === 'mixed' ? 'some attempts passed' : state}`
}

/** Draws after every change of the data, the size, the theme and the scroll position. Returns the width of a column. */
function useDrawing(
  scroller: RefObject<HTMLDivElement | null>,
  canvas: RefObject<HTMLCanvasElement | null>,
  { matrix, rows, columns, selected }: MapCellsProps,
): number {
  const [width, setWidth] = useState(800)
  const columnPx = toColumnWidth(width, columns.length)
  useEffect(() => {
    const [element, surface] = [scroller.current, canvas.current]
    if (!element || !surface) return
    let frame = 0
    let colors = readColors(element)
    const draw = () => {
      frame = 0
      drawMap(surface, { matrix, rows, columns, columnPx, selected, colors, scrollLeft: element.scrollLeft })
    }
    const request = () => {
      if (frame === 0) frame = requestAnimationFrame(draw)
    }
    const resize = new ResizeObserver(() => {
      setWidth(element.clientWidth)
      surface.style.width = `${element.clientWidth}px`
      request()
    })
    const recolor = () => {
      colors = readColors(element)
      request()
    }
    const theme = new MutationObserver(recolor)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    resize.observe(element)
    theme.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    scheme.addEventListener('change', recolor)
    element.addEventListener('scroll', request, { passive: true })
    draw()
    return () => {
      cancelAnimationFrame(frame)
      resize.disconnect()
      theme.disconnect()
      scheme.removeEventListener('change', recolor)
      element.removeEventListener('scroll', request)
    }
  }, [scroller, canvas, matrix, rows, columns, columnPx, selected])
  return columnPx
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
