// Starts the language server, `egshape lsp`, for rule files.
const { workspace, window } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

function server() {
  const settings = workspace.getConfiguration("egshape");
  const [command, ...first] = settings.get("command");
  const args = [...first, "lsp"];
  for (const model of settings.get("models")) args.push("--model", model);
  for (const file of settings.get("ops")) args.push("--ops", file);
  if (!settings.get("testOnSave")) args.push("--no-tests");
  const folder = workspace.workspaceFolders?.[0]?.uri.fsPath;
  return { command, args, options: { cwd: folder }, transport: TransportKind.stdio };
}

async function start() {
  client = new LanguageClient("egshape", "egshape rules", server(), {
    documentSelector: [{ language: "egg" }],
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    window.showErrorMessage(
      `egshape does not start: ${error.message}. Set "egshape.command"; the server needs the extra: pip install "egshape[lsp]"`
    );
  }
}

async function activate(context) {
  context.subscriptions.push(
    workspace.onDidChangeConfiguration(async (event) => {
      if (!event.affectsConfiguration("egshape")) return;
      await client?.stop();
      await start();
    })
  );
  await start();
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };
