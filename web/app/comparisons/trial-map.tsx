import { type KeyboardEvent, type MouseEvent, memo, type RefObject, useEffect, useMemo, useRef, useState } from 'react'
import type { ComparisonMatrix, ComparisonSetting } from '../../../src/comparisons/shapes/schema.ts'
import { percent } from '../../components/format.ts'
import { Card } from '../components/page.tsx'
import { useDelayed } from '../components/use-delayed.ts'
import { type MapCell, ROW_PX, toColumnWidth } from './draw-map.ts'
import { groupTasks, orderSettings, orderTasks, type TaskOrder, toCell } from './map-model.ts'
import { MapTiles } from './map-tiles.tsx'
import { createShortNames, isControl, nameSetting } from './text.ts'

type TrialMapProps = {
  matrix: ComparisonMatrix
  settings: readonly ComparisonSetting[]
  selected: MapCell | undefined
  onSelect: (cell: MapCell) => void
  /** Called for Enter and a double click. */
  onOpen: (cell: MapCell) => void
}

/** Tasks × settings. Drawn on a few canvases, so that 300 × 60 cells cost few elements. */
export function TrialMap({ matrix, settings, selected, onSelect, onOpen }: TrialMapProps) {
  const [order, setOrder] = useState<TaskOrder>('difficulty')
  // The ids keep their identity while trials change.
  const { settings: settingIds } = matrix
  const controls = settings.flatMap((setting) => (isControl(setting) ? setting.id : [])).join('\n')
  const countedSettings = useMemo(() => {
    const ids = new Set(controls.split('\n'))
    return settingIds.flatMap((id, position) => (ids.has(id) ? [] : [position]))
  }, [settingIds, controls])
  // The order is updated with a delay: cells that move with every trial are unreadable, and all of them are drawn again.
  const delayedMatrix = useDelayed(matrix, ORDER_DELAY_MS)
  const orderMatrix = delayedMatrix.tasks.length === matrix.tasks.length ? delayedMatrix : matrix
  const delayedSettings = useDelayed(settings, ORDER_DELAY_MS)
  const columns = useMemo(() => orderTasks(orderMatrix, order, countedSettings), [orderMatrix, order, countedSettings])
  const rows = useMemo(() => {
    const accuracy = new Map(delayedSettings.map((setting) => [setting.id, setting.accuracy]))
    return orderSettings(settingIds, (id) => accuracy.get(id) ?? null)
  }, [settingIds, delayedSettings])
  const names = useNames(settings)
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
        <RowLabels rows={rows} settingIds={settingIds} settings={settings} names={names} isGrouped={isGrouped} />
        <MapCells
          matrix={matrix}
          orderMatrix={orderMatrix}
          rows={rows}
          columns={columns}
          selected={selected}
          onSelect={onSelect}
          onOpen={onOpen}
          names={names}
          isGrouped={isGrouped}
          countedSettings={countedSettings}
        />
      </div>
      <p className="small muted">
        {isGrouped ? 'Columns are tasks, hardest on the right. ' : 'Columns are tasks in the order of the plan. '}
        <kbd>←↑↓→</kbd> move · <kbd>Enter</kbd> shows the task in every setting
      </p>
    </Card>
  )
}

/** Delay after which rows and columns are ordered by new results. */
const ORDER_DELAY_MS = 5000

const LEGEND = ['passed', 'failed', 'running', 'errored', 'queued'] as const

const MapLegend = memo(() => (
  <ul className="map-legend small muted" aria-label="Legend">
    {LEGEND.map((state) => (
      <li key={state}>
        <span className={`mark ${state}`} /> {state}
      </li>
    ))}
  </ul>
))

type RowLabelsProps = {
  rows: readonly number[]
  settingIds: readonly string[]
  settings: readonly ComparisonSetting[]
  names: SettingNames
  isGrouped: boolean
}

/** Names the rows. A change of a trial alone does not render them again. */
const RowLabels = memo(({ rows, settingIds, settings, names, isGrouped }: RowLabelsProps) => {
  const byId = new Map(settings.map((setting) => [setting.id, setting]))
  return (
    <ol className={isGrouped ? 'map-rows grouped' : 'map-rows'}>
      {rows.map((position) => {
        const id = settingIds[position] ?? ''
        const { name, full } = names.get(id) ?? { name: id, full: id }
        return <RowLabel key={id} name={name} full={full} accuracy={byId.get(id)?.accuracy ?? null} />
      })}
    </ol>
  )
})

type SettingNames = ReadonlyMap<string, { name: string; full: string }>

/** Returns short and full names by id. The settings of a comparison do not change; only their results do. */
function useNames(settings: readonly ComparisonSetting[]): SettingNames {
  // biome-ignore lint/correctness/useExhaustiveDependencies: results do not change names
  return useMemo(() => {
    const shorten = createShortNames(settings)
    return new Map(settings.map((setting) => [setting.id, { name: shorten(setting), full: nameSetting(setting) }]))
  }, [settings.length])
}

type RowLabelProps = { name: string; full: string; accuracy: number | null }

const RowLabel = memo(({ name, full, accuracy }: RowLabelProps) => (
  <li>
    <bdi className="name" title={full}>
      {name}
    </bdi>
    <b>
      <span className="number">{accuracy === null ? '–' : percent(accuracy)}</span>
    </b>
  </li>
))

type MapCellsProps = Omit<TrialMapProps, 'settings'> & {
  names: SettingNames
  /** The matrix whose results determine the order of the columns. */
  orderMatrix: ComparisonMatrix
  rows: readonly number[]
  columns: readonly number[]
  isGrouped: boolean
  /** Positions of the settings that decide how difficult a task is. */
  countedSettings: readonly number[]
}

/** Columns and rows that a key moves the selection by. The selection stays within the map. */
const KEY_STEPS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  Home: [-1e6, 0],
  End: [1e6, 0],
}

/** Memoized: new results of settings alone do not render the cells again. */
const MapCells = memo((props: MapCellsProps) => {
  const { matrix, orderMatrix, rows, columns, selected, onSelect, onOpen, names, isGrouped, countedSettings } = props
  const scroller = useRef<HTMLDivElement>(null)
  const space = useRef<HTMLDivElement>(null)
  const columnPx = toColumnWidth(useWidth(scroller), columns.length)
  const headPx = isGrouped ? ROW_PX : 0
  const select = (column: number, row: number) => {
    const [task, setting] = [columns[clamp(column, columns.length)], rows[clamp(row, rows.length)]]
    if (task === undefined || setting === undefined) return
    onSelect({ task, setting })
    revealColumn(scroller.current, clamp(column, columns.length) * columnPx, columnPx)
  }
  const [column, row] = selected ? [columns.indexOf(selected.task), rows.indexOf(selected.setting)] : [-1, -1]
  const handleKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && selected) return onOpen(selected)
    const step = KEY_STEPS[event.key]
    if (!step) return
    event.preventDefault()
    if (selected) select(column + step[0], row + step[1])
    else select(0, 0)
  }
  const handleClick = (event: MouseEvent) => {
    const box = space.current?.getBoundingClientRect()
    if (!box) return
    select(Math.floor((event.clientX - box.left) / columnPx), Math.floor((event.clientY - box.top - headPx) / ROW_PX))
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
      onKeyDown={handleKey}
      onClick={handleClick}
      onDoubleClick={() => selected && onOpen(selected)}
    >
      <div
        ref={space}
        className="map-space"
        style={{ width: columns.length * columnPx, height: headPx + rows.length * ROW_PX }}
      >
        {isGrouped && (
          <GroupLabels matrix={orderMatrix} columns={columns} countedSettings={countedSettings} columnPx={columnPx} />
        )}
        <MapTiles matrix={matrix} columns={columns} rows={rows} columnPx={columnPx} top={headPx} scroller={scroller} />
        {column >= 0 && row >= 0 && (
          <span
            className="map-selected"
            style={{ left: column * columnPx, top: headPx + row * ROW_PX, width: columnPx, height: ROW_PX - 1 }}
          />
        )}
      </div>
      <p id="map-cell" className="hidden" aria-live="polite">
        {selected && describeCell(matrix, names, selected)}
      </p>
    </div>
  )
})

const CHARACTER_PX = 6

type GroupLabelsProps = Pick<MapCellsProps, 'matrix' | 'columns' | 'countedSettings'> & { columnPx: number }

function GroupLabels({ matrix, columns, countedSettings, columnPx }: GroupLabelsProps) {
  const groups = useMemo(() => groupTasks(matrix, columns, countedSettings), [matrix, columns, countedSettings])
  return groups.map(
    ({ label, from, to }) =>
      (to - from) * columnPx >= label.length * CHARACTER_PX && (
        <span key={label} className="map-group" style={{ left: from * columnPx, width: (to - from) * columnPx }}>
          {label}
        </span>
      ),
  )
}

const clamp = (value: number, length: number): number => Math.max(0, Math.min(length - 1, value))

function revealColumn(scroller: HTMLDivElement | null, left: number, width: number): void {
  if (!scroller) return
  const right = left + width
  if (left < scroller.scrollLeft) scroller.scrollLeft = left
  if (right > scroller.scrollLeft + scroller.clientWidth) scroller.scrollLeft = right - scroller.clientWidth
}

function describeCell(matrix: ComparisonMatrix, names: SettingNames, { task, setting }: MapCell): string {
  const { state } = toCell(matrix, task, setting)
  const name = names.get(matrix.settings[setting] ?? '')?.full
  return `${matrix.tasks[task]?.name ?? ''} · ${name}: ${state === 'mixed' ? 'some attempts passed' : state}`
}

/** Returns the width of an element, updated when it changes. */
function useWidth(ref: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(800)
  useEffect(() => {
    const element = ref.current
    if (!element) return
    const observer = new ResizeObserver(() => setWidth(element.clientWidth))
    observer.observe(element)
    return () => observer.disconnect()
  }, [ref])
  return width
}
