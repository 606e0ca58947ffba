// Runs a task, shows its turns, and calls a function of this program.
//
//     npm install && npm start -- "How warm is it in Oslo?"

import { Podium, kindOf, type ClientFunction, type EpisodeEvent } from "@podium/client";

const getWeather: ClientFunction = {
  name: "get_weather",
  description: "The weather now at our own stations.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  run: ({ city }: { city: string }) => (city === "Oslo" ? "-3 degrees" : "we have no station there"),
};

function show(event: EpisodeEvent): void {
  const calls = event.action_decided?.action?.tool_calls?.calls ?? [];
  const names = calls.map((call) => `${call.tool_name}(${call.arguments_json})`).join(", ");
  console.log(`turn ${event.turn}: ${kindOf(event)} ${names}`);
}

const podium = new Podium();
const task = process.argv.slice(2).join(" ") || "How warm is it in Oslo?";
const episode = await podium.episodes.run(task, {
  functions: [getWeather],
  tools: ["calculator"],
  budget: "0.05",
  onEvent: show,
});
console.log(episode.answer, `(${episode.cost?.amount ?? 0} USD)`);
