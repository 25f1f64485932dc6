import { type RawEntry, tgz } from './harbor/raw-tar.ts'

/** File contents by path. */
export type ArchiveFiles = Record<string, string | Buffer>

/** Files of a task that the scripted validator accepts. */
export const smallTask = <Content extends string | Buffer = string>(
  more: Record<string, Content> = {},
): Record<string, string | Content> => ({
  'task.toml':
    'schema_version = "1.4"\n[metadata]\ndifficulty = "easy"\n[agent]\ntimeout_sec = 20\n[verifier]\ntimeout_sec = 20\n',
  'instruction.md': 'Write the word hello to /app/hello.txt.\n',
  'environment/Dockerfile': 'FROM debian:bookworm-slim\nWORKDIR /app\n',
  'tests/test.sh':
    '#!/bin/bash\nif [ "$(cat /app/hello.txt)" = hello ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
  'solution/solve.sh': '#!/bin/bash\necho hello > /app/hello.txt\n',
  ...more,
})

/** Packs tasks by folder into an archive. */
export const buildArchive = (tasks: Record<string, ArchiveFiles>, ...more: RawEntry[]): Buffer =>
  tgz(
    ...Object.entries(tasks).flatMap(([folder, files]) =>
      Object.entries(files).map(([path, content]) => ({
        name: folder === '' ? path : `${folder}/${path}`,
        content,
        mode: path.endsWith('.sh') ? 0o755 : 0o644,
      })),
    ),
    ...more,
  )
