import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useMemo, useState } from 'react'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { type DiffFile, listDiffFiles, toDiffLineKind } from '../../components/diff-line.ts'
import { VirtualLines } from './virtual-lines.tsx'

type DiffLinesProps = { label: string; lines: readonly string[] }

/** Shows a unified diff with its files above it. Code has syntax colours as soon as the highlighter is loaded. */
export function DiffLines({ label, lines }: DiffLinesProps) {
  const files = useMemo(() => listDiffFiles(lines), [lines])
  const [targetIndex, setTargetIndex] = useState<number>()
  const renderLine = useLineRenderer(files)
  return (
    <>
      {files.length > 0 && (
        <ul className="rows small diff-files">
          {files.slice(0, FILES_SHOWN_MAX).map(({ name, headerIndex, added, removed }) => (
            <li key={headerIndex}>
              <button type="button" className="link-button" onClick={() => setTargetIndex(headerIndex)}>
                <bdi>{replaceUnsafeCharacters(name)}</bdi>
              </button>{' '}
              <span className="muted">
                +{added} −{removed}
              </span>
            </li>
          ))}
          {files.length > FILES_SHOWN_MAX && <li className="muted">and {files.length - FILES_SHOWN_MAX} more files</li>}
        </ul>
      )}
      <VirtualLines
        label={label}
        lines={lines}
        classOf={toDiffLineKind}
        targetIndex={targetIndex}
        renderLine={renderLine}
      />
    </>
  )
}

const FILES_SHOWN_MAX = 20

/** Loads the highlighter and returns a function that colours a line, or undefined until the highlighter is loaded. */
function useLineRenderer(files: readonly DiffFile[]): ((line: string, index: number) => ReactNode) | undefined {
  const { data: highlighter } = useQuery({
    queryKey: ['highlighter'],
    queryFn: () => import('./highlight.ts'),
    staleTime: Number.POSITIVE_INFINITY,
  })
  return useMemo(() => {
    if (!highlighter) return undefined
    const { findLanguage, highlightLine } = highlighter
    const languages = files.map(({ name, headerIndex }) => ({ headerIndex, language: findLanguage(name) }))
    return (line, index) => {
      const language = languages.findLast(({ headerIndex }) => headerIndex < index)?.language
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
