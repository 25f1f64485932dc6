import { type KeyboardEvent, type MouseEvent, memo, useMemo, useRef, useState } from 'react'
import type { ComparisonMatrix, ComparisonSetting } from '../../../src/comparisons/shapes/schema.ts'
import { percent } from '../../components/format.ts'
import { Card } from '../components/page.tsx'
import { useDelayed } from '../components/use-delayed.ts'
import { useWidth } from '../components/use-width.ts'
import { type MapCell, ROW_PX, toColumnPx } from './draw-map.ts'
import { groupTasks, orderSettings, orderTasks, type TaskOrder, toCell } from './map-model.ts'
import { MapTiles } from './map-tiles.tsx'
import { createNameShortener, isControl, nameSetting } from './text.ts'

type TrialMapProps = {
  matrix: ComparisonMatrix
  settings: readonly ComparisonSetting[]
  selected: MapCell | undefined
  onSelect: (cell: MapCell) => void
  /** Called for Enter and a double click. */
  onOpen: (cell: MapCell) => void
}

/** Draws tasks × settings on a few canvases: an element per cell would be slow for maps of 300 × 60 cells. */
export function TrialMap({ matrix, settings, selected, onSelect, onOpen }: TrialMapProps) {
  const [order, setOrder] = useState<TaskOrder>('difficulty')
  const { settings: settingIds } = matrix
  const countedSettings = useCountedSettings(settingIds, settings)
  // The order is updated with a delay: cells that move with every trial cannot be read, and moving them redraws the map.
  const delayedMatrix = useDelayed(matrix, ORDER_DELAY_MS)
  const orderMatrix = delayedMatrix.tasks.length === matrix.tasks.length ? delayedMatrix : matrix
  const delayedSettings = useDelayed(settings, ORDER_DELAY_MS)
  const columns = useMemo(() => orderTasks(orderMatrix, order, countedSettings), [orderMatrix, order, countedSettings])
  const rows = useMemo(() => {
    const accuracy = new Map(delayedSettings.map((setting) => [setting.id, setting.accuracy]))
    return orderSettings(settingIds, (id) => accuracy.get(id) ?? null)
  }, [settingIds, delayedSettings])
  const names = useSettingNames(settings)
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

/** Returns the positions of all settings except the controls. */
function useCountedSettings(settingIds: readonly string[], settings: readonly ComparisonSetting[]): number[] {
  const controls = settings.filter(isControl).map(({ id }) => id)
  // Settings are new objects whenever results change. The joined ids stay the same, and so does the memoized list.
  const joinedControls = controls.join('\n')
  return useMemo(() => {
    const controlIds = new Set(joinedControls.split('\n'))
    return settingIds.flatMap((id, position) => (controlIds.has(id) ? [] : [position]))
  }, [settingIds, joinedControls])
}

/** Width of the map until the browser has laid out the page. */
const WIDTH_INITIAL_PX = 800

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
  names: SettingLabels
  isGrouped: boolean
}

/** Names the rows. Memoized, so that a change of a trial does not render them again. */
const RowLabels = memo(({ rows, settingIds, settings, names, isGrouped }: RowLabelsProps) => {
  const byId = new Map(settings.map((setting) => [setting.id, setting]))
  return (
    <ol className={isGrouped ? 'map-rows grouped' : 'map-rows'}>
      {rows.map((position) => {
        const id = settingIds[position] ?? ''
        const { short, full } = names.get(id) ?? { short: id, full: id }
        return <RowLabel key={id} name={short} fullName={full} accuracy={byId.get(id)?.accuracy ?? null} />
      })}
    </ol>
  )
})

type SettingLabels = ReadonlyMap<string, { short: string; full: string }>

/** Returns short and full names by id. The settings of a comparison do not change, only their results do. */
function useSettingNames(settings: readonly ComparisonSetting[]): SettingLabels {
  // biome-ignore lint/correctness/useExhaustiveDependencies: results do not change names
  return useMemo(() => {
    const shorten = createNameShortener(settings)
    return new Map(settings.map((setting) => [setting.id, { short: shorten(setting), full: nameSetting(setting) }]))
  }, [settings.length])
}

type RowLabelProps = { name: string; fullName: string; accuracy: number | null }

const RowLabel = memo(({ name, fullName, accuracy }: RowLabelProps) => (
  <li>
    <bdi className="name" title={fullName}>
      {name}
    </bdi>
    <b>
      <span className="number">{accuracy === null ? '–' : percent(accuracy)}</span>
    </b>
  </li>
))

type MapCellsProps = Omit<TrialMapProps, 'settings'> & {
  names: SettingLabels
  /** The matrix whose results determine the order of the columns. */
  orderMatrix: ComparisonMatrix
  /** Position in the matrix of the setting of each row. */
  rows: readonly number[]
  /** Position in the matrix of the task of each column. */
  columns: readonly number[]
  isGrouped: boolean
  /** Positions of the settings that determine how difficult a task is. */
  countedSettings: readonly number[]
}

/** More than the number of columns of any map. The selection stops at the edge. */
const TO_EDGE = 1e6

/** Number of columns and rows by which a key moves the selection. */
const KEY_STEPS: Record<string, [columns: number, rows: number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  Home: [-TO_EDGE, 0],
  End: [TO_EDGE, 0],
}

/** Shows the cells and moves the selection. Memoized, so that new results of settings do not render the cells again. */
const MapCells = memo((props: MapCellsProps) => {
  const { matrix, orderMatrix, rows, columns, selected, onSelect, onOpen, names, isGrouped, countedSettings } = props
  const scroller = useRef<HTMLDivElement>(null)
  const cellArea = useRef<HTMLDivElement>(null)
  const columnPx = toColumnPx(useWidth(scroller, WIDTH_INITIAL_PX), columns.length)
  const headPx = isGrouped ? ROW_PX : 0
  const select = (column: number, row: number) => {
    const shownColumn = clampIndex(column, columns.length)
    const [task, setting] = [columns[shownColumn], rows[clampIndex(row, rows.length)]]
    if (task === undefined || setting === undefined) return
    onSelect({ task, setting })
    scrollIntoView(scroller.current, shownColumn * columnPx, columnPx)
  }
  const selectedColumn = selected ? columns.indexOf(selected.task) : -1
  const selectedRow = selected ? rows.indexOf(selected.setting) : -1
  const handleKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && selected) return onOpen(selected)
    const [columnStep, rowStep] = KEY_STEPS[event.key] ?? [0, 0]
    if (columnStep === 0 && rowStep === 0) return
    event.preventDefault()
    if (selected) select(selectedColumn + columnStep, selectedRow + rowStep)
    else select(0, 0)
  }
  const handleClick = (event: MouseEvent) => {
    const box = cellArea.current?.getBoundingClientRect()
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
        ref={cellArea}
        className="map-space"
        style={{ width: columns.length * columnPx, height: headPx + rows.length * ROW_PX }}
      >
        {isGrouped && (
          <GroupLabels matrix={orderMatrix} columns={columns} countedSettings={countedSettings} columnPx={columnPx} />
        )}
        <MapTiles matrix={matrix} columns={columns} rows={rows} columnPx={columnPx} top={headPx} scroller={scroller} />
        {selectedColumn >= 0 && selectedRow >= 0 && (
          <SelectionFrame left={selectedColumn * columnPx} top={headPx + selectedRow * ROW_PX} width={columnPx} />
        )}
      </div>
      <p id="map-cell" className="hidden" aria-live="polite">
        {selected && describeCell(matrix, names, selected)}
      </p>
    </div>
  )
})

const SelectionFrame = ({ left, top, width }: { left: number; top: number; width: number }) => (
  <span className="map-selected" style={{ left, top, width, height: ROW_PX - 1 }} />
)

/** Width of an average character. A label that does not fit into its group is left out. */
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

/** Returns the index of a list with `length` entries that is closest to `index`. */
const clampIndex = (index: number, length: number): number => Math.max(0, Math.min(length - 1, index))

/** Scrolls horizontally until a column is visible. */
function scrollIntoView(scroller: HTMLDivElement | null, left: number, columnPx: number): void {
  if (!scroller) return
  const right = left + columnPx
  if (left < scroller.scrollLeft) scroller.scrollLeft = left
  if (right > scroller.scrollLeft + scroller.clientWidth) scroller.scrollLeft = right - scroller.clientWidth
}

function describeCell(matrix: ComparisonMatrix, names: SettingLabels, { task, setting }: MapCell): string {
  const { state } = toCell(matrix, task, setting)
  const name = names.get(matrix.settings[setting] ?? '')?.full
  return `${matrix.tasks[task]?.name ?? ''} · ${name}: ${state === 'mixed' ? 'some attempts passed' : state}`
}
