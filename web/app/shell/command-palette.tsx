import { useNavigate } from '@tanstack/react-router'
import { type KeyboardEvent, useEffect, useRef, useState } from 'react'
import { useRead } from '../api/use-api.ts'
import { listBenchmarks, listRepositories } from '../endpoints.gen.ts'
import { useSignOut } from '../session/session.tsx'
import { NAVIGATION } from './navigation.ts'
import { useTheme } from './theme.ts'

type PaletteCommand = { label: string; run: () => void }

const ARROW_STEPS: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 }

/** Lists pages and commands. Typing filters the list, arrow keys select an entry, Enter runs it. */
export function CommandPalette({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [filter, setFilter] = useState('')
  const [selectedIndex, setSelectedIndex] = useState(0)
  const commands = filterCommands(useCommands(), filter)
  useEffect(() => dialog.current?.showModal(), [])

  const run = (command: PaletteCommand | undefined) => {
    if (!command) return
    onClose()
    command.run()
  }
  const handleKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter') return run(commands[selectedIndex])
    const step = ARROW_STEPS[event.key]
    if (step === undefined || commands.length === 0) return
    event.preventDefault()
    setSelectedIndex((selectedIndex + step + commands.length) % commands.length)
  }

  return (
    <dialog ref={dialog} className="palette" aria-label="Search or jump" onClose={onClose}>
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={commands.length > 0 ? `palette-${selectedIndex}` : undefined}
        aria-label="Page or command"
        placeholder="Page or command"
        value={filter}
        onKeyDown={handleKey}
        onChange={({ target }) => {
          setFilter(target.value)
          setSelectedIndex(0)
        }}
      />
      <CommandList commands={commands} selectedIndex={selectedIndex} onRun={run} />
    </dialog>
  )
}

type CommandListProps = {
  commands: readonly PaletteCommand[]
  selectedIndex: number
  onRun: (command: PaletteCommand) => void
}

/** Options of the combobox. The input keeps the focus, so options handle clicks but no keys. */
const CommandList = ({ commands, selectedIndex, onRun }: CommandListProps) => (
  <div id="palette-list" role="listbox" aria-label="Pages and commands" tabIndex={-1}>
    {commands.map((command, index) => (
      <div
        key={command.label}
        id={`palette-${index}`}
        role="option"
        tabIndex={-1}
        aria-selected={index === selectedIndex}
        onClick={() => onRun(command)}
        onKeyDown={() => {}}
      >
        {command.label}
      </div>
    ))}
    {commands.length === 0 && <p className="muted">No page or command matches.</p>}
  </div>
)

/** Returns the commands whose label contains every word of the filter, in any case. */
const filterCommands = (commands: readonly PaletteCommand[], filter: string): PaletteCommand[] => {
  const words = filter.toLowerCase().split(/\s+/)
  return commands.filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)))
}

/** Maximum number of benchmarks, and of repositories, in the palette. */
const SOURCES_MAX = 100

/** Lists the pages of the navigation, then benchmarks and repositories, then commands. */
function useCommands(): PaletteCommand[] {
  const navigate = useNavigate()
  const signOut = useSignOut()
  const [, switchTheme] = useTheme()
  const benchmarks = useRead(listBenchmarks, { query: { limit: SOURCES_MAX } })
  const repositories = useRead(listRepositories, { query: { limit: SOURCES_MAX } })
  return [
    ...NAVIGATION.map(({ label, link }) => ({ label, run: () => void navigate(link) })),
    ...(benchmarks.data?.benchmarks ?? []).map(({ datasetOrg, dataset }) => ({
      label: `Benchmark ${datasetOrg}/${dataset}`,
      run: () => void navigate({ to: '/benchmarks/$datasetOrg/$dataset', params: { datasetOrg, dataset } }),
    })),
    ...(repositories.data?.repos ?? []).flatMap(({ owner, name, fullName }) => [
      {
        label: `Repository ${fullName}`,
        run: () => void navigate({ to: '/repos/$owner/$name', params: { owner, name } }),
      },
      {
        label: `Publish ${fullName}`,
        run: () => void navigate({ to: '/repos/$owner/$name/publish', params: { owner, name } }),
      },
    ]),
    { label: 'Switch theme', run: switchTheme },
    { label: 'Sign out', run: () => void signOut() },
  ]
}
