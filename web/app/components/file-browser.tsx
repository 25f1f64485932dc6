import { useState } from 'react'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { ApiInput, FileEndpoint } from '../api/api.ts'
import { useApi } from '../api/use-api.ts'
import { DiffLines } from './diff-lines.tsx'
import { Empty } from './page.tsx'
import { ProblemNote } from './problem-note.tsx'
import { useTextFile } from './text-file.ts'
import { VirtualLines } from './virtual-lines.tsx'

type FileBrowserProps<E extends FileEndpoint> = {
  paths: readonly string[]
  endpoint: E
  /** Builds the input with which `endpoint` returns the file at a path. */
  toInput: (path: string) => ApiInput<E>
}

/** Shows one of several untrusted text files and a list to choose another. A patch is shown first. */
export function FileBrowser<const E extends FileEndpoint>({ paths, endpoint, toInput }: FileBrowserProps<E>) {
  const [path = '', setPath] = useState(paths.find(isDiff) ?? paths[0])
  if (path === '') return <Empty>This task has no files of this kind.</Empty>
  return (
    <>
      {paths.length > 1 && (
        <p className="actions">
          <label>
            File{' '}
            <select value={path} onChange={(event) => setPath(event.target.value)}>
              {paths.map((each) => (
                <option key={each} value={each}>
                  {replaceUnsafeCharacters(each)}
                </option>
              ))}
            </select>
          </label>
        </p>
      )}
      <FileText key={path} path={path} endpoint={endpoint} input={toInput(path)} />
    </>
  )
}

export const isDiff = (path: string): boolean => /\.(?:patch|diff)$/.test(path)

type FileTextProps<E extends FileEndpoint> = { path: string; endpoint: E; input: ApiInput<E> }

function FileText<const E extends FileEndpoint>({ path, endpoint, input }: FileTextProps<E>) {
  const api = useApi()
  const url = api.urlOf(endpoint, input)
  const file = useTextFile(url, (signal) => api.openFile(endpoint, input, signal))
  if (file.state === 'failed') return <ProblemNote error={file.error} />
  return (
    <>
      <p className="small muted">
        <bdi>{replaceUnsafeCharacters(path)}</bdi>{' '}
        <a href={url} download>
          Download
        </a>
      </p>
      {isDiff(path) ? <DiffLines label={path} lines={file.lines} /> : <VirtualLines label={path} lines={file.lines} />}
    </>
  )
}
