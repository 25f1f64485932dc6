/** The commands of README.md from a clone with its packages to the first trial of your own model. */
export const FIRST_RUN =
  'ASSAY_ALLOW_HOST_BASE=1 bin/assay run samples/tasks/greet-in-bash --sandbox local --model qwen3 --base-url http://127.0.0.1:11434/v1'
