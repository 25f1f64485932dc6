import { useMemo, useState } from 'react'
import type { LocatedTrial } from '../../../src/comparisons/shapes/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { plural } from '../../components/format.ts'
import { useApi } from '../api/use-api.ts'
import { DiffLines } from '../components/diff-lines.tsx'
import { Empty } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { type TextFile, useTextFile } from '../components/text-file.ts'
import { VirtualLines } from '../components/virtual-lines.tsx'
import { FileChoice } from './trajectory-view.tsx'
import { explainMissing, formatBytes, isLog, isVerifierLog, openArtifact, PATCH, toArtifactUrl } from './trial-files.ts'

/** Reads an artifact of a trial as lines. `size` is its size in bytes. */
function useArtifact(trial: LocatedTrial, name: string) {
  const api = useApi()
  const file = useTextFile(`${trial.id} ${name}`, (signal) => openArtifact(api, trial, name, signal))
  const size = trial.artifacts.find((artifact) => artifact.name === name)?.bytes ?? 0
  return { file, size, url: toArtifactUrl(api, trial, name) }
}

type FileNoteProps = { file: TextFile & { loadRest: () => void }; size: number; url: string }

/** Shows how much of a file has been read, with controls to load or download the rest. */
function FileNote({ file, size, url }: FileNoteProps) {
  const { state, characters, lines, error, loadRest } = file
  if (state === 'failed') return <ProblemNote error={error} />
  const shownSize =
    state === 'done' ? formatBytes(size) : `the first ${formatBytes(characters)} of ${formatBytes(size)}`
  return (
    <p className="actions small muted">
      {plural(lines.length, 'line')}, {shownSize}
      {state === 'paused' && (
        <button type="button" className="button" onClick={loadRest}>
          Load the rest
        </button>
      )}
      {state === 'full' && 'Download the file to read more.'}
      <a href={url} download>
        Download
      </a>
    </p>
  )
}

/** Shows the changes that the agent made to the working directory. */
export function DiffView({ trial }: { trial: LocatedTrial }) {
  if (!trial.artifacts.some(({ name }) => name === PATCH))
    return <Empty command={`assay trials diff ${trial.id}`}>{explainMissing(trial, 'The patch')}</Empty>
  return <PatchFile trial={trial} />
}

function PatchFile({ trial }: { trial: LocatedTrial }) {
  const { file, size, url } = useArtifact(trial, PATCH)
  return (
    <>
      <FileNote file={file} size={size} url={url} />
      {file.state === 'done' && file.lines.length === 0 ? (
        <p>The agent changed no file.</p>
      ) : (
        <DiffLines label="Patch" lines={file.lines} />
      )}
    </>
  )
}

/** Lists the tests that failed, and below them the output of the verifier. */
export function VerifierView({ trial }: { trial: LocatedTrial }) {
  const names = trial.artifacts.map(({ name }) => name).filter(isVerifierLog)
  const [name = '', setName] = useState(names[0])
  if (name === '')
    return (
      <Empty command={`assay trials logs ${trial.id}`}>{explainMissing(trial, 'The output of the verifier')}</Empty>
    )
  return (
    <>
      {names.length > 1 && <FileChoice names={names} name={name} onChoose={setName} />}
      <VerifierLog key={name} trial={trial} name={name} />
    </>
  )
}

function VerifierLog({ trial, name }: { trial: LocatedTrial; name: string }) {
  const { file, size, url } = useArtifact(trial, name)
  const [targetIndex, setTargetIndex] = useState<number>()
  const failedTests = useMemo(
    () =>
      (trial.failedTests ?? []).map((test) => ({
        test,
        lineIndex: file.lines.findIndex((line) => line.includes(test)),
      })),
    [trial.failedTests, file.lines],
  )
  return (
    <>
      {failedTests.length > 0 && (
        <>
          <h3>{plural(failedTests.length, 'failed test')}</h3>
          <ul className="rows failed-tests">
            {failedTests.map(({ test, lineIndex }) => (
              <li key={test}>
                <span className="fail-mark">× failed</span>
                {lineIndex < 0 ? (
                  <bdi>{replaceUnsafeCharacters(test)}</bdi>
                ) : (
                  <button type="button" className="link-button" onClick={() => setTargetIndex(lineIndex)}>
                    <bdi>{replaceUnsafeCharacters(test)}</bdi>
                  </button>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      <FileNote file={file} size={size} url={url} />
      <VirtualLines label={name} lines={file.lines} targetIndex={targetIndex} />
    </>
  )
}

/** Shows a log of the agent or of another program, except the verifier. */
export function LogsView({ trial }: { trial: LocatedTrial }) {
  const names = trial.artifacts.map(({ name }) => name).filter(isLog)
  const [name = '', setName] = useState(names[0])
  if (name === '') return <Empty command={`assay trials logs ${trial.id}`}>{explainMissing(trial, 'The log')}</Empty>
  return (
    <>
      {names.length > 1 && <FileChoice names={names} name={name} onChoose={setName} />}
      <LogFile key={name} trial={trial} name={name} />
    </>
  )
}

function LogFile({ trial, name }: { trial: LocatedTrial; name: string }) {
  const { file, size, url } = useArtifact(trial, name)
  const [targetIndex, setTargetIndex] = useState<number>()
  return (
    <>
      <div className="actions">
        <FileNote file={file} size={size} url={url} />
        <button type="button" className="button" onClick={() => setTargetIndex(file.lines.length - 1)}>
          Go to the end
        </button>
      </div>
      <VirtualLines label={name} lines={file.lines} targetIndex={targetIndex} />
    </>
  )
}

/** Lists every file of the trial as a download. The service sends files only as attachments, because they are untrusted. */
export function FilesView({ trial }: { trial: LocatedTrial }) {
  const api = useApi()
  if (trial.artifacts.length === 0)
    return <Empty command={`assay trials artifacts ${trial.id}`}>{explainMissing(trial, 'The list of files')}</Empty>
  return (
    <ul className="rows">
      {trial.artifacts.map(({ name, bytes }) => (
        <li key={name} className="file-row">
          <a href={toArtifactUrl(api, trial, name)} download>
            <bdi>{replaceUnsafeCharacters(name)}</bdi>
          </a>
          <span className="muted">{formatBytes(bytes)}</span>
        </li>
      ))}
    </ul>
  )
}
