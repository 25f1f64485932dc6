import { memo, useRef } from 'react'
import type { Comparison, ComparisonSetting } from '../../../src/comparisons/shapes/schema.ts'
import { widthOf } from '../../../src/results/text.ts'
import { type Box, placeLabels } from '../../components/chart-labels.ts'
import { round, toAccuracyScale, toCostScale } from '../../components/chart-scale.ts'
import { formatInterval, percent, usd } from '../../components/format.ts'
import { Card, Empty } from '../components/page.tsx'
import { useWidth } from '../components/use-width.ts'
import { createNameShortener, isControl, listFrontier, nameSetting } from './text.ts'

const HEIGHT_PX = 320
/** Width of an average character of a label. */
const CHARACTER_PX = 6.6
const LABEL_LENGTH_MAX = 38
const WIDTH_MIN_PX = 260
/** Width until the browser has laid out the page. */
const WIDTH_INITIAL_PX = 640
/** Charts up to this width have fewer ticks on the axis of costs. */
const NARROW_MAX_PX = 520

/** A setting with results. Controls are not shown. */
type ChartSetting = ComparisonSetting & { accuracy: number; costPerTaskUsd: number }

const isChartSetting = (setting: ComparisonSetting): setting is ChartSetting =>
  setting.accuracy !== null && setting.costPerTaskUsd !== null && !isControl(setting)

/** Draws accuracy over cost with intervals. Settings appear as soon as they have a result. */
export function FrontierChart({ comparison }: { comparison: Comparison }) {
  const settings = comparison.settings.filter(isChartSetting)
  return (
    <Card title="Accuracy and cost">
      {settings.length === 0 ? (
        <Empty>Settings appear here with their first results: accuracy over cost per task, with intervals.</Empty>
      ) : (
        <Chart settings={settings} />
      )}
    </Card>
  )
}

type ChartProps = { settings: readonly ChartSetting[] }

/** Memoized by points and intervals, because placing the labels takes time. */
const Chart = memo(
  ({ settings }: ChartProps) => {
    const frame = useRef<HTMLDivElement>(null)
    const width = Math.max(WIDTH_MIN_PX, useWidth(frame, WIDTH_INITIAL_PX))
    const frontier = listFrontier(settings)
    const plot = { left: 44, top: 10, right: width - 8, bottom: HEIGHT_PX - 44 }
    const { toY, accuracyTicks } = toAccuracyScale(settings, plot)
    const costs = settings.map(({ costPerTaskUsd }) => costPerTaskUsd)
    const costScale = toCostScale(costs, plot, width > NARROW_MAX_PX ? 7 : 4)
    const onFrontier = frontier.flatMap((id) => settings.filter((setting) => setting.id === id))
    const others = settings.filter(({ id }) => !frontier.includes(id))
    const points = [...onFrontier.toReversed(), ...others].map((setting) => ({
      setting,
      isOnFrontier: frontier.includes(setting.id),
      x: costScale.toX(setting.costPerTaskUsd),
      y: toY(setting.accuracy),
    }))
    const summary = `Accuracy against cost per task of ${settings.length} settings. The table has all numbers.`
    return (
      <div ref={frame}>
        <svg className="frontier" width={width} height={HEIGHT_PX} role="img" aria-label={summary}>
          {accuracyTicks.map((tick) => (
            <g key={tick}>
              <line className="grid" x1={plot.left} x2={plot.right} y1={toY(tick)} y2={toY(tick)} />
              <text x={plot.left - 8} y={toY(tick) + 4} textAnchor="end">{`${tick} %`}</text>
            </g>
          ))}
          {costScale.ticks.map((tick) => (
            <text key={tick} x={costScale.toX(tick)} y={HEIGHT_PX - 26} textAnchor="middle">
              {usd(tick)}
            </text>
          ))}
          <text x={plot.right} y={HEIGHT_PX - 6} textAnchor="end">
            {`cost per task${costScale.isLog ? ', log scale' : ''}`}
          </text>
          <path className="steps" d={toSteps(onFrontier, { toX: costScale.toX, toY, right: plot.right })} />
          {points.toReversed().map((point) => (
            <Point key={point.setting.id} {...point} toY={toY} />
          ))}
          <Labels points={points} plot={plot} obstacles={toObstacles(points, { toY, right: plot.right })} />
        </svg>
      </div>
    )
  },
  (before, after) =>
    before.settings.length === after.settings.length &&
    before.settings.every((setting, index) => isSamePoint(setting, after.settings[index])),
)

function isSamePoint(a: ChartSetting, b: ChartSetting | undefined): boolean {
  const [before, after] = [a.stats.ci95, b?.stats.ci95]
  return (
    a.id === b?.id &&
    a.accuracy === b.accuracy &&
    a.costPerTaskUsd === b.costPerTaskUsd &&
    before?.low === after?.low &&
    before?.high === after?.high
  )
}

type StepScale = { toX: (amount: number) => number; toY: (percent: number) => number; right: number }

/** Builds the path of the frontier as a step line from the cheapest setting to the right edge. */
function toSteps([first, ...rest]: readonly ChartSetting[], { toX, toY, right }: StepScale): string {
  if (!first) return ''
  const steps = rest.map((each) => `H${toX(each.costPerTaskUsd)}V${toY(each.accuracy)}`).join('')
  return `M${toX(first.costPerTaskUsd)},${toY(first.accuracy)}${steps}H${right}`
}

type ChartMark = { setting: ChartSetting; isOnFrontier: boolean; x: number; y: number }

function Point({ setting, isOnFrontier, x, y, toY }: ChartMark & { toY: (percent: number) => number }) {
  const { ci95 } = setting.stats
  const range = ci95 ? ` (${formatInterval(ci95)})` : ''
  return (
    <g className={isOnFrontier ? 'on' : 'off'}>
      <title>{`${nameSetting(setting)}: ${percent(setting.accuracy)}${range}, ${usd(setting.costPerTaskUsd)}`}</title>
      {ci95 && <line className="whisker" x1={x} x2={x} y1={toY(ci95.low)} y2={toY(ci95.high)} />}
      <circle cx={x} cy={y} r={isOnFrontier ? 6 : 4.5} />
    </g>
  )
}

/** Boxes around whiskers and the frontier line, which labels avoid if they can. */
function toObstacles(points: readonly ChartMark[], { toY, right }: Pick<StepScale, 'toY' | 'right'>): Box[] {
  const whiskers = points.flatMap(({ x, setting: { stats } }) =>
    stats.ci95 ? [{ left: x - 2, right: x + 2, top: toY(stats.ci95.high), bottom: toY(stats.ci95.low) }] : [],
  )
  const steps = points.filter(({ isOnFrontier }) => isOnFrontier).toSorted((a, b) => a.x - b.x)
  const lines = steps.map(({ x, y }, index) => ({
    left: x,
    right: steps[index + 1]?.x ?? right,
    top: y - 2,
    bottom: y + 2,
  }))
  return [...whiskers, ...lines]
}

type LabelsProps = { points: readonly ChartMark[]; plot: Box; obstacles: readonly Box[] }

function Labels({ points, plot, obstacles }: LabelsProps) {
  const shorten = createNameShortener(points.map(({ setting }) => setting))
  const labels = points.map(({ setting, x, y }) => {
    const full = shorten(setting)
    const text = full.length > LABEL_LENGTH_MAX ? `${full.slice(0, LABEL_LENGTH_MAX - 1)}…` : full
    return { x, y, text, width: widthOf(text) * CHARACTER_PX }
  })
  return placeLabels(labels, plot, obstacles).map((label, index) => {
    const point = points[index]
    if (!label || !point) return null
    return (
      <text
        key={point.setting.id}
        className={point.isOnFrontier ? 'label on' : 'label'}
        x={round(label.x)}
        y={round(label.y)}
        textAnchor={label.anchor}
      >
        {label.text}
      </text>
    )
  })
}
