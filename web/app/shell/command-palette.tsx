import { useNavigate } from '@tanstack/react-router'
import { type KeyboardEvent, useEffect, useRef, useState } from 'react'
import { useRead } from '../api/use-api.ts'
import { listBenchmarks, listRepositories } from '../endpoints.gen.ts'
import { useSignOut } from '../session/session.tsx'
import { NAVIGATION } from './navigation.ts'
import { useTheme } from './theme.ts'

type PaletteCommand = { label: string; run: () => void }

const ARROW_STEPS: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 }

/** Lists every page and command. Typing filters the list, arrow keys select, Enter runs. */
export function CommandPalette({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [text, setText] = useState('')
  const [selected, setSelected] = useState(0)
  const commands = filterCommands(useCommands(), text)
  useEffect(() => dialog.current?.showModal(), [])

  const run = (command: PaletteCommand | undefined) => {
    if (!command) return
    onClose()
    command.run()
  }
  const handleKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter') return run(commands[selected])
    const step = ARROW_STEPS[event.key]
    if (step === undefined || commands.length === 0) return
    event.preventDefault()
    setSelected((selected + step + commands.length) % commands.length)
  }

  return (
    <dialog ref={dialog} className="palette" aria-label="Search or jump" onClose={onClose}>
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={commands.length > 0 ? `palette-${selected}` : undefined}
        aria-label="Page or command"
        placeholder="Page or command"
        value={text}
        onKeyDown={handleKey}
        onChange={({ target }) => {
          setText(target.value)
          setSelected(0)
        }}
      />
      <CommandList commands={commands} selected={selected} onRun={run} />
    </dialog>
  )
}

type CommandListProps = {
  commands: readonly PaletteCommand[]
  selected: number
  onRun: (command: PaletteCommand) => void
}

/** Options of the combobox. The input keeps the focus; options are only clicked. */
const CommandList = ({ commands, selected, onRun }: CommandListProps) => (
  <div id="palette-list" role="listbox" aria-label="Pages and commands" tabIndex={-1}>
    {commands.map((command, index) => (
      <div
        key={command.label}
        id={`palette-${index}`}
        role="option"
        tabIndex={-1}
        aria-selected={index === selected}
        onClick={() => onRun(command)}
        onKeyDown={() => {}}
      >
        {command.label}
      </div>
    ))}
    {commands.length === 0 && <p className="muted">No page or command matches.</p>}
  </div>
)

const filterCommands = (commands: readonly PaletteCommand[], text: string): PaletteCommand[] => {
  const words = text.toLowerCase().split(/\s+/)
  return commands.filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)))
}

const SOURCES_MAX = 100

/** Lists the pages of the navigation, then every benchmark and repository, then commands. */
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
