import { defineConfig } from 'vitest/config'

const project = (name: string, groupOrder: number, include: string[], exclude: string[] = []) => ({
  extends: true as const,
  test: { name, include, exclude, sequence: { groupOrder } },
})

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: [
      project('all', 1, ['{src,cli,test,scripts}/**/*.test.ts'], ['test/last/**']),
      // Looks back at what the others have seen.
      project('last', 2, ['test/last/*.test.ts']),
    ],
  },
})
