import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    include: ['{src,cli,test,scripts}/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
