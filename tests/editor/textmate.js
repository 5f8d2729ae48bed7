// Tokens of files by a TextMate grammar, as VS Code has them: node textmate.js MODULES GRAMMAR FILE ... -> JSON.
const fs = require("fs");
const path = require("path");
const [modules, grammar, ...files] = process.argv.slice(2);
const textmate = require(path.join(modules, "vscode-textmate"));
const oniguruma = require(path.join(modules, "vscode-oniguruma"));

async function main() {
  await oniguruma.loadWASM(fs.readFileSync(path.join(modules, "vscode-oniguruma/release/onig.wasm")).buffer);
  const registry = new textmate.Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => textmate.parseRawGrammar(fs.readFileSync(grammar, "utf8"), grammar),
  });
  const loaded = await registry.loadGrammar("source.egg");
  const found = {};
  for (const file of files) {
    let stack = textmate.INITIAL;
    found[file] = fs.readFileSync(file, "utf8").split("\n").map((line) => {
      const result = loaded.tokenizeLine(line, stack);
      stack = result.ruleStack;
      return result.tokens.map((each) => [each.startIndex, each.endIndex, each.scopes.slice(1)]);
    });
  }
  console.log(JSON.stringify(found));
}

main();
