import { Popup } from "../ui/parts";
import { words } from "../words/en";
import type { NavItem } from "./navigation";

export default function KeyHelp({ items, onClose }: { items: NavItem[]; onClose: () => void }) {
  return (
    <Popup title={words.keysHelp} open onClose={onClose}>
      <dl className="keys">
        <div>
          <dt>
            <kbd>Ctrl</kbd> <kbd>K</kbd>
          </dt>
          <dd>{words.palette}</dd>
        </div>
        {items
          .filter((item) => item.key)
          .map((item) => (
            <div key={item.path}>
              <dt>
                <kbd>g</kbd> <kbd>{item.key}</kbd>
              </dt>
              <dd>{item.title}</dd>
            </div>
          ))}
      </dl>
    </Popup>
  );
}
