import { useNavigate } from '@tanstack/react-router'
import { type ComponentType, memo, useCallback, useEffect, useRef, useState } from 'react'
import type { ComparisonMatrix } from '../../../src/comparisons/shapes/schema.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty } from '../components/page.tsx'
import { useDelayed } from '../components/use-delayed.ts'
import { ActivityCard } from './activity-card.tsx'
import { CellCard } from './cell-card.tsx'
import type { MapCell } from './draw-map.ts'
import { FailuresCard } from './failures-card.tsx'
import { FrontierChart } from './frontier-chart.tsx'
import { isOpen } from './live.ts'
import { PairTable } from './pair-table.tsx'
import { type ComparisonProps, toTaskLink } from './scope.ts'
import { SettingsTable } from './settings-table.tsx'
import { TrialMap } from './trial-map.tsx'

/**
 * Shows map, chart and tables. They are large and change with every trial, so each section follows new results only while
 * it is in view.
 */
export const Results = (props: ComparisonProps) => (
  <>
    <LiveSection content={MapSection} {...props} />
    <LiveSection content={EvidenceSection} {...props} />
    <LiveSection content={SettingsTable} {...props} />
    <LiveSection content={PairTable} {...props} />
  </>
)

/** Delay with which chart and tables show new results. The cells of the map change at once. */
const RESULTS_DELAY_MS = 500

/** `isLive` is false while the section is out of view and must not follow new results. */
type SectionProps = ComparisonProps & { isLive: boolean }

type LiveSectionProps = ComparisonProps & { content: ComponentType<SectionProps> }

/** A section that follows an open comparison only while it is in view or close to it. */
function LiveSection({ content: Content, target, comparison }: LiveSectionProps) {
  const [isInView, frame] = useInView()
  const isLive = isInView || !isOpen(comparison)
  const { data = comparison } = useRead(target.endpoints.read, target.input, { subscribed: isLive })
  const delayedComparison = useDelayed(data, RESULTS_DELAY_MS)
  return (
    <div ref={frame} className="stack">
      <Content target={target} comparison={delayedComparison} isLive={isLive} />
    </div>
  )
}

/** An element at most this far out of view counts as in view. */
const VIEW_MARGIN_PX = 300

/** Returns whether an element is in view, and the ref to attach to the element. */
function useInView() {
  const frame = useRef<HTMLDivElement>(null)
  const [isInView, setInView] = useState(true)
  useEffect(() => {
    const element = frame.current
    if (!element) return
    const observer = new IntersectionObserver((entries) => setInView(entries.at(-1)?.isIntersecting ?? true), {
      rootMargin: `${VIEW_MARGIN_PX}px`,
    })
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  return [isInView, frame] as const
}

const EvidenceSection = memo(({ target, comparison, isLive }: SectionProps) => (
  <div className="columns">
    <FrontierChart comparison={comparison} />
    <div className="stack">
      <FailuresCard target={target} comparison={comparison} isLive={isLive} />
      <ActivityCard comparison={comparison} isLive={isLive} />
    </div>
  </div>
))

/** Reads the matrix, which changes with every trial, so that only the map is rendered again. */
const MapSection = memo(({ target, comparison, isLive }: SectionProps) => {
  const matrix = useRead(target.endpoints.matrix, target.input, { subscribed: isLive })
  return (
    <Loaded query={matrix}>{(loaded) => <MapContent target={target} comparison={comparison} matrix={loaded} />}</Loaded>
  )
})

type MapContentProps = ComparisonProps & { matrix: ComparisonMatrix }

function MapContent({ target, comparison, matrix }: MapContentProps) {
  const [selected, setSelected] = useState<MapCell>()
  const navigate = useNavigate()
  const { tasks } = matrix
  const openTask = useCallback(
    ({ task }: MapCell) => void navigate(toTaskLink(target.scope, comparison.id, tasks[task]?.name ?? '')),
    [navigate, target, comparison.id, tasks],
  )
  if (matrix.tasks.length === 0)
    return (
      <Card title="Tasks × settings">
        <Empty>Each trial appears here as a cell when the tasks have been frozen.</Empty>
      </Card>
    )
  return (
    <>
      <TrialMap
        matrix={matrix}
        settings={comparison.settings}
        selected={selected}
        onSelect={setSelected}
        onOpen={openTask}
      />
      {selected && <CellCard target={target} comparison={comparison} matrix={matrix} cell={selected} />}
    </>
  )
}
