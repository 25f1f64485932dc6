import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useMemo, useState } from 'react'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { toDiffLineKind } from '../../components/diff-line.ts'
import { VirtualLines } from './virtual-lines.tsx'

type DiffLinesProps = { label: string; lines: readonly string[] }

/** Shows a unified diff with its files above it. Code has syntax colours as soon as the highlighter is loaded. */
export function DiffLines({ label, lines }: DiffLinesProps) {
  const files = useMemo(() => listFiles(lines), [lines])
  const [target, setTarget] = useState<number>()
  const renderLine = useLineRenderer(files)
  return (
    <>
      {files.length > 0 && (
        <ul className="rows small diff-files">
          {files.slice(0, FILES_SHOWN).map(({ name, line, added, removed }) => (
            <li key={line}>
              <button type="button" className="link-button" onClick={() => setTarget(line)}>
                <bdi>{replaceUnsafeCharacters(name)}</bdi>
              </button>{' '}
              <span className="muted">
                +{added} −{removed}
              </span>
            </li>
          ))}
          {files.length > FILES_SHOWN && <li className="muted">and {files.length - FILES_SHOWN} more files</li>}
        </ul>
      )}
      <VirtualLines label={label} lines={lines} classOf={toDiffLineKind} target={target} renderLine={renderLine} />
    </>
  )
}

const FILES_SHOWN = 20

type DiffFile = { name: string; line: number; added: number; removed: number }

function listFiles(lines: readonly string[]): DiffFile[] {
  const files: DiffFile[] = []
  for (const [line, text] of lines.entries()) {
    if (text.startsWith('+++ ')) files.push({ name: text.slice(4).replace(/^b\//, ''), line, added: 0, removed: 0 })
    const file = files.at(-1)
    const change = toDiffLineKind(text)
    if (file && (change === 'added' || change === 'removed')) file[change] += 1
  }
  return files
}

/** Loads the highlighter and returns a function that colours a line. Undefined until it is loaded. */
function useLineRenderer(files: readonly DiffFile[]): ((line: string, index: number) => ReactNode) | undefined {
  const { data: highlighter } = useQuery({
    queryKey: ['highlighter'],
    queryFn: () => import('./highlight.ts'),
    staleTime: Number.POSITIVE_INFINITY,
  })
  return useMemo(() => {
    if (!highlighter) return undefined
    const { findLanguage, highlightLine } = highlighter
    const languages = files.map(({ name, line }) => ({ line, language: findLanguage(name) }))
    return (line, index) => {
      const language = languages.findLast((file) => file.line < index)?.language
      const kind = toDiffLineKind(line)
      if (language === undefined || kind === 'file' || kind === 'hunk') return line
      // The sign of a changed line is not part of the code.
      return [line.slice(0, 1), ...highlightLine(line.slice(1), language).map(toSpan)]
    }
  }, [highlighter, files])
}

const toSpan = ({ text, kind }: { text: string; kind: string | undefined }, position: number): ReactNode =>
  kind === undefined ? (
    text
  ) : (
    <span key={position} className={`code-${kind}`}>
      {text}
    </span>
  )
