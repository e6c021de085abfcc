"""One typed call: prompt, layouts, replies, replay."""
