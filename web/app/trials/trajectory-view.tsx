import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useDeferredValue, useEffect, useMemo, useRef, useState } from 'react'
import type { LocatedTrial } from '../../../src/comparisons/shapes/schema.ts'
import { replaceUnsafeCharacters, stripAnsi } from '../../../src/platform/terminal-text.ts'
import { formatCount, plural, usd } from '../../components/format.ts'
import { useApi } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Empty } from '../components/page.tsx'
import { useRows } from '../components/use-rows.ts'
import { readInWorker } from './read-in-worker.ts'
import {
  EVENT_FILTERS,
  type EventFilter,
  filterEvents,
  type ParsedTrajectory,
  type StepUsage,
  type TraceEvent,
} from './trajectory.ts'
import { explainMissing, isTrajectory, toArtifactUrl } from './trial-files.ts'

/** `step` is the number of the step to scroll to. */
type TrajectoryViewProps = { trial: LocatedTrial; step: number | undefined }

/** Shows messages, reasoning and tool calls of the agent, with filters and search. */
export function TrajectoryView({ trial, step }: TrajectoryViewProps) {
  const api = useApi()
  const names = trial.artifacts.map(({ name }) => name).filter(isTrajectory)
  const [name = '', setName] = useState(names[0])
  const queries = useQueryClient()
  const queryKey = ['trajectory', trial.id, name]
  const query = useQuery({
    queryKey,
    queryFn: ({ signal }) => {
      const url = toArtifactUrl(api, trial, name)
      return readInWorker(url, signal, (trajectory) => {
        if (!signal.aborted) queries.setQueryData(queryKey, trajectory)
      })
    },
    enabled: name !== '',
    staleTime: Number.POSITIVE_INFINITY,
    // Structural sharing would compare every event with those of the previous result.
    structuralSharing: false,
  })
  if (name === '')
    return <Empty command={`assay trials trajectory ${trial.id}`}>{explainMissing(trial, 'The trajectory')}</Empty>
  return (
    <>
      {names.length > 1 && <FileChoice names={names} name={name} onChoose={setName} />}
      <Loaded query={query}>
        {(trajectory) => (
          <Trace trajectory={trajectory} trialId={trial.id} targetStep={step} isReading={query.isFetching} />
        )}
      </Loaded>
    </>
  )
}

type FileChoiceProps = { names: readonly string[]; name: string; onChoose: (name: string) => void }

export function FileChoice({ names, name, onChoose }: FileChoiceProps) {
  return (
    <p className="actions">
      {names.map((each) => (
        <button type="button" className="button" key={each} aria-pressed={each === name} onClick={() => onChoose(each)}>
          <bdi>{each}</bdi>
        </button>
      ))}
    </p>
  )
}

const FILTER_LABELS: Record<EventFilter, string> = {
  messages: 'Messages',
  reasoning: 'Reasoning',
  tools: 'Tool calls',
  errors: 'Errors',
}

type TraceProps = {
  trajectory: ParsedTrajectory
  trialId: string
  targetStep: number | undefined
  /** True while more events arrive. */
  isReading: boolean
}

function Trace({ trajectory, trialId, targetStep, isReading }: TraceProps) {
  const { events, counts, agent, notes } = trajectory
  const [filter, setFilter] = useState<EventFilter>()
  const [search, setSearch] = useState('')
  const deferredSearch = useDeferredValue(search)
  const shown = useMemo(() => filterEvents(events, filter, deferredSearch), [events, filter, deferredSearch])
  return (
    <>
      <div className="trace-controls">
        <fieldset className="actions">
          <legend className="hidden">Filter by kind</legend>
          <button type="button" className="button" aria-pressed={!filter} onClick={() => setFilter(undefined)}>
            All <span className="faint">{formatCount(events.length)}</span>
          </button>
          {EVENT_FILTERS.map((each) => (
            <button
              type="button"
              className="button"
              key={each}
              aria-pressed={filter === each}
              disabled={counts[each] === 0}
              onClick={() => setFilter(filter === each ? undefined : each)}
            >
              {FILTER_LABELS[each]} <span className="faint">{formatCount(counts[each])}</span>
            </button>
          ))}
        </fieldset>
        <input
          type="search"
          aria-label="Search the trajectory"
          placeholder="Search the trajectory"
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
        <output className="small muted">
          {isReading ? `${plural(shown.length, 'event')} so far` : plural(shown.length, 'event')}
        </output>
      </div>
      {(agent || notes) && (
        <p className="small muted">
          <bdi>{replaceUnsafeCharacters([agent, notes].filter(Boolean).join(' · '))}</bdi>
        </p>
      )}
      <EventList events={shown} trialId={trialId} targetStep={targetStep} />
    </>
  )
}

/** Height that a row is assumed to have until it is measured: that of most rows. */
const ROW_PX = 84

type EventListProps = {
  events: readonly TraceEvent[]
  trialId: string
  targetStep: number | undefined
}

function EventList({ events, trialId, targetStep }: EventListProps) {
  const region = useRef<HTMLElement>(null)
  const navigate = useNavigate()
  const virtualizer = useRows(region, { count: events.length, rowPx: ROW_PX, overscan: 4 })
  const scrolledToStep = useRef<number>(undefined)
  useEffect(() => {
    if (targetStep === undefined || scrolledToStep.current === targetStep) return
    const index = events.findIndex(({ step }) => step >= targetStep)
    const hasArrived = index >= 0
    if (!hasArrived) return
    scrolledToStep.current = targetStep
    virtualizer.scrollToIndex(index, { align: 'start' })
  }, [targetStep, events, virtualizer])
  const goToStep = (step: number | undefined) => {
    if (step === undefined) return
    void navigate({ to: '/trials/$trialId', params: { trialId }, search: { step }, replace: true, resetScroll: false })
  }
  return (
    <section
      className="trace"
      aria-label="Events"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable without a mouse
      tabIndex={0}
      ref={region}
      onKeyDown={({ key }) => {
        if (key === 'j') goToStep(events.find(({ step }) => step > (targetStep ?? 0))?.step)
        if (key === 'k') goToStep(events.findLast(({ step }) => step < (targetStep ?? 0))?.step)
      }}
    >
      <ol style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => {
          const event = events[index]
          if (!event) return null
          const isFirstOfStep = events[index - 1]?.step !== event.step
          return (
            <li
              key={index}
              data-index={index}
              ref={virtualizer.measureElement}
              aria-setsize={events.length}
              aria-posinset={index + 1}
              className={event.step === targetStep ? 'target' : undefined}
              style={{ transform: `translateY(${start}px)` }}
            >
              <EventRow event={event} usage={isFirstOfStep ? event.usage : undefined} onLink={goToStep} />
            </li>
          )
        })}
      </ol>
    </section>
  )
}

/** Characters and lines of an event that are shown before the user expands it. */
const TEXT_LENGTH_MAX = 1500
const TEXT_LINES_MAX = 16

/** `onLink` is called with the number of the step whose link was clicked. */
type EventRowProps = { event: TraceEvent; usage: StepUsage | undefined; onLink: (step: number) => void }

function EventRow({ event, usage, onLink }: EventRowProps) {
  const [isOpen, setOpen] = useState(false)
  const { step, kind, label, text, isError } = event
  const shownText = isOpen ? text : shorten(text)
  return (
    <div className={`event ${kind}`}>
      <p className="event-head">
        <StepLink step={step} onLink={onLink} />
        <bdi>{replaceUnsafeCharacters(label)}</bdi>
        {isError && <span className="chip fail">× error</span>}
        {usage && (
          <span className="faint">
            {formatCount(usage.input)} in, {formatCount(usage.output)} out
            {usage.costUsd === undefined ? '' : `, ${usd(usage.costUsd)}`}
          </span>
        )}
      </p>
      <pre>
        <bdi>{replaceUnsafeCharacters(stripAnsi(shownText))}</bdi>
      </pre>
      {(isOpen || shownText.length < text.length) && (
        <button type="button" className="link-button small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Show less' : `Show all ${formatCount(text.length)} characters`}
        </button>
      )}
    </div>
  )
}

/** A plain link: a link of the router in every row would subscribe to the address and make scrolling slow. */
const StepLink = ({ step, onLink }: { step: number; onLink: (step: number) => void }) => (
  <a
    href={`?step=${step}`}
    aria-label={`Link to step ${step}`}
    onClick={(event) => {
      const opensElsewhere = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey
      if (opensElsewhere) return
      event.preventDefault()
      onLink(step)
    }}
  >
    {step}
  </a>
)

function shorten(text: string): string {
  const start = text.slice(0, TEXT_LENGTH_MAX)
  const lines = start.split('\n')
  return lines.length > TEXT_LINES_MAX ? lines.slice(0, TEXT_LINES_MAX).join('\n') : start
}
