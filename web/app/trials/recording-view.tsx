import { useQuery } from '@tanstack/react-query'
import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import type { LocatedTrial } from '../../../src/comparisons/shapes/schema.ts'
import { replaceUnsafeCharacters, stripAnsi } from '../../../src/platform/terminal-text.ts'
import { useApi } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Empty } from '../components/page.tsx'
import { parseAsciicast, type Recording, renderScreen } from './asciicast.ts'
import { FileChoice } from './trajectory-view.tsx'
import { explainMissing, formatSeconds, isRecording, openArtifact } from './trial-files.ts'

/** Replays the terminal output of the agent. */
export function RecordingView({ trial }: { trial: LocatedTrial }) {
  const api = useApi()
  const names = trial.artifacts.map(({ name }) => name).filter(isRecording)
  const [name = '', setName] = useState(names[0])
  const query = useQuery({
    queryKey: ['recording', trial.id, name],
    queryFn: async ({ signal }) => {
      const response = await openArtifact(api, trial, name, signal)
      return parseAsciicast(await response.text())
    },
    enabled: name !== '',
    staleTime: Number.POSITIVE_INFINITY,
    // Structural sharing would compare every write with those of the previous result.
    structuralSharing: false,
  })
  if (name === '')
    return <Empty command={`assay trials logs ${trial.id}`}>{explainMissing(trial, 'The recording')}</Empty>
  return (
    <>
      {names.length > 1 && <FileChoice names={names} name={name} onChoose={setName} />}
      <Loaded query={query}>{(recording) => <Player key={name} recording={recording} />}</Loaded>
    </>
  )
}

const SPEEDS = [1, 4, 16] as const

function Player({ recording }: { recording: Recording }) {
  const [seconds, setSeconds] = useState(0)
  const [speed, setSpeed] = useState<number>(SPEEDS[0])
  const [isPlaying, setPlaying] = useState(false)
  const screen = useRef<HTMLElement>(null)
  const hasEnded = seconds >= recording.seconds
  useEffect(() => {
    if (!isPlaying || hasEnded) return
    const frameStartMs = performance.now()
    const frame = requestAnimationFrame(() => {
      const playedSeconds = ((performance.now() - frameStartMs) / 1000) * speed
      setSeconds(Math.min(recording.seconds, seconds + playedSeconds))
    })
    return () => cancelAnimationFrame(frame)
  }, [isPlaying, hasEnded, seconds, speed, recording])
  useLayoutEffect(() => {
    if (seconds > 0) screen.current?.scrollTo({ top: screen.current.scrollHeight })
  }, [seconds])
  const togglePlaying = () => {
    if (hasEnded) setSeconds(0)
    setPlaying(hasEnded || !isPlaying)
  }
  return (
    <div className="recording">
      <div className="actions">
        <button type="button" className="button" onClick={togglePlaying}>
          {isPlaying && !hasEnded ? 'Pause' : 'Play'}
        </button>
        <input
          type="range"
          aria-label="Position"
          aria-valuetext={formatSeconds(seconds)}
          min={0}
          max={recording.seconds}
          step="any"
          value={seconds}
          onChange={(event) => setSeconds(Number(event.target.value))}
        />
        <span className="small muted number">
          {formatSeconds(seconds)} of {formatSeconds(recording.seconds)}
        </span>
        <label className="small">
          Speed{' '}
          <select value={speed} onChange={(event) => setSpeed(Number(event.target.value))}>
            {SPEEDS.map((each) => (
              <option key={each} value={each}>
                {each} ×
              </option>
            ))}
          </select>
        </label>
      </div>
      <section
        className="screen"
        aria-label="Output of the agent"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable without a mouse
        tabIndex={0}
        ref={screen}
      >
        <bdi>{replaceUnsafeCharacters(stripAnsi(renderScreen(recording, seconds)))}</bdi>
      </section>
      <p className="small muted">Pauses of more than two seconds are shortened.</p>
    </div>
  )
}
